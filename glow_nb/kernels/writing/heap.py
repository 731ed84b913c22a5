"""A binary heap in kernel source: ``length`` numbers at the int32 pointer ``heap``, first on top.

The source around it names the variables ``heap`` and ``length``.
"""

from __future__ import annotations

from collections.abc import Callable

from glow_nb.kernels.writing.source import SourceWriter

Order = Callable[[SourceWriter, str, str], None]
"""Writes lines that set ``is_first``: whether the first number comes before the second one."""


def write_heap(out: SourceWriter, order: Order) -> None:
    """Write the loop that makes a heap of numbers in any order (Floyd)."""
    with out.block("for start in range(length // 2 - 1, -1, -1):"):
        write_sift_down(out, "start", order)


def write_sift_down(out: SourceWriter, start: str, order: Order) -> None:
    """Write the loop that moves the number at *start* down to where it belongs."""
    out.line(f"place = {start}\nitem = get(heap, place)")
    with out.block("while 2 * place + 1 < length:"):
        out.line("child = 2 * place + 1\nupper = get(heap, child)")
        with out.block("if child + 1 < length:"):
            out.line("neighbour = get(heap, child + 1)")
            order(out, "neighbour", "upper")
            with out.block("if is_first:"):
                out.line("child = child + 1\nupper = neighbour")
        order(out, "upper", "item")
        with out.block("if not is_first:"):
            out.line("break")
        out.line("put(heap, place, upper)\nplace = child")
    out.line("put(heap, place, item)")
