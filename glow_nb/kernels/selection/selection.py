"""Choosing some of many, one after the other.

One thread does it, since each place of the result depends on what was chosen before.
"""

from __future__ import annotations

from glow_nb.base.size import surely
from glow_nb.base.types import ElementKind
from glow_nb.kernels.registry import kernel_for
from glow_nb.kernels.target import Target
from glow_nb.kernels.writing.heap import Order, write_heap, write_sift_down
from glow_nb.kernels.writing.source import KernelSource, SourceWriter
from glow_nb.llir.instructions.selection import NonZeroInst, UniqueInst
from glow_nb.llir.traits import SERIAL

INT64 = ElementKind.INT64

_NUMBER_BYTES = 4


@kernel_for(NonZeroInst, traits=SERIAL)
def non_zero_source(instruction: NonZeroInst, target: Target) -> KernelSource:
    """Return the kernel ``(places, count, input)`` that lists the places of what is not zero."""
    type = instruction.input.type
    out = SourceWriter()
    with out.block("def kernel(places, count, input, scratch, thread, threads):"):
        with out.block("if thread == 0:"):
            out.line(f"clear(places, 0, {type.rank * type.size})\nfound = 0")
            with out.block(f"for i in range({type.size}):"):
                with out.block("if get(input, i) != 0:"):
                    out.line("rest = i")
                    for axis in reversed(range(1, type.rank)):
                        size, row = type.shape[axis], axis * type.size
                        out.line(f"put(places, {row} + found, rest % {size})")
                        out.line(f"rest = rest // {size}")
                    out.line("put(places, found, rest)\nfound = found + 1")
            out.line("put(count, 0, found)")
    return KernelSource("non_zero", out.text, (INT64, INT64, type.kind))


@kernel_for(UniqueInst, traits=SERIAL)
def unique_source(instruction: UniqueInst, target: Target) -> KernelSource:
    """Return the kernel ``(indices, inverse, counts, number, input)``.

    Scratch holds the rows in order, sorted as a heap, and then for each row the first that equals
    it; the rank of that one stands in ``inverse``.
    """
    rows, columns = instruction.input.type.shape
    kind = instruction.input.type.kind

    def is_greater(out: SourceWriter, first: str, second: str) -> None:
        _write_order(out, columns, kind, first, second)

    out = SourceWriter()
    arguments = "indices, inverse, counts, number, input, scratch, thread, threads"
    with out.block(f"def kernel({arguments}):"):
        with out.block("if thread == 0:"):
            out.line("found = 0")
            if not surely(rows, "==", 0):
                out.line(f"heap = as_int32(scratch)\nfirsts = at(heap, {rows})")
                out.line(f"clear(indices, 0, {rows})\nclear(counts, 0, {rows})\nlength = {rows}")
                with out.block(f"for i in range({rows}):"):
                    out.line("put(heap, i, i)")
                write_heap(out, is_greater)
                _write_heap_sort(out, rows, is_greater)
                _write_firsts(out, rows, is_greater, is_sorted=instruction.sorted)
                _write_ranks(out, rows, is_sorted=instruction.sorted)
            out.line("put(number, 0, found)")
    kinds = (INT64, INT64, INT64, INT64, kind)
    return KernelSource("unique", out.text, kinds, 2 * _NUMBER_BYTES * rows)


def _write_order(
    out: SourceWriter, columns: int, kind: ElementKind, first: str, second: str
) -> None:
    """Write whether row *first* is greater, or equal and later; and whether the rows differ."""
    out.line(f"is_first = {first} > {second}\ndiffers = False")
    with out.block(f"for c in range({columns}):"):
        out.line(f"x = get(input, {first} * {columns} + c)")
        out.line(f"y = get(input, {second} * {columns} + c)")
        both_nan = " and not (x != x and y != y)" if kind.is_float else ""
        with out.block(f"if x != y{both_nan}:"):
            nan = " or x != x" if kind.is_float else ""
            out.line(f"is_first = x > y{nan}\ndiffers = True\nbreak")


def _write_heap_sort(out: SourceWriter, rows: int, is_greater: Order) -> None:
    with out.block(f"for last in range({rows - 1}, 0, -1):"):
        out.line("top = get(heap, 0)\nput(heap, 0, get(heap, last))\nput(heap, last, top)")
        out.line("length = last")
        write_sift_down(out, "0", is_greater)


def _write_firsts(out: SourceWriter, rows: int, is_greater: Order, *, is_sorted: bool) -> None:
    """Write the first equal row of each row; in sorted order also the rank of those."""
    out.line("first = get(heap, 0)")
    with out.block(f"for i in range({rows}):"):
        out.line("row = get(heap, i)")
        is_greater(out, "row", "first")
        with out.block("if differs:"):
            out.line("first = row")
        if is_sorted:
            with out.block("if first == row:"):
                out.line("put(inverse, first, found)\nput(indices, found, first)")
                out.line("found = found + 1")
        out.line("put(firsts, row, first)")


def _write_ranks(out: SourceWriter, rows: int, *, is_sorted: bool) -> None:
    """Write which distinct row each row is, and count them."""
    with out.block(f"for i in range({rows}):"):
        out.line("origin = get(firsts, i)")
        if not is_sorted:
            with out.block("if origin == i:"):
                out.line("put(inverse, i, found)\nput(indices, found, i)\nfound = found + 1")
        out.line("rank = get(inverse, origin)\nput(inverse, i, rank)")
        out.line("put(counts, rank, get(counts, rank) + 1)")
