"""Results that no cache will hold: their lines are written past the caches (:mod:`simd.stream`).

Only whole lines can be, so a piece of the result whose vectors begin anywhere is made in scratch,
the stage, and its lines are copied from there.
"""

from __future__ import annotations

from collections.abc import Collection

from glow_nb.base.alignment import CACHE_LINE_BYTES
from glow_nb.base.types import ElementKind
from glow_nb.kernels.target import Target
from glow_nb.kernels.writing.source import SourceWriter
from glow_nb.llir.program import Buffer
from glow_nb.llir.verify import may_overlap


def may_stream(dest: Buffer, operands: Collection[Buffer], target: Target) -> bool:
    """Return whether *dest* should go past the caches: it does not fit there anyhow.

    Lines that have been read for an operand are there already.
    """
    return (
        dest.type.size_bytes >= target.machine.l3_bytes
        and dest.type.kind is not ElementKind.BOOL
        and not any(may_overlap(dest, buffer) for buffer in operands)
    )


def line_elements(kind: ElementKind) -> int:
    """Return how many elements fill a cache line."""
    return CACHE_LINE_BYTES // kind.size_bytes


def write_streamed_copy(
    out: SourceWriter, kind: ElementKind, dest: str, stage: str, count: str
) -> None:
    """Write the copy of *count* elements from *stage* to *dest*, pointers to *kind*.

    The lines that it shares with other results are written in the ordinary way.
    """
    line = line_elements(kind)
    out.line(f"to = {dest}")
    out.line(f"first = min(to_line(to), {count})")
    out.line(f"last = first + ({count} - first) // {line} * {line}")
    out.line(f"copy(to, 0, {stage}, 0, first)")
    with out.block(f"for q in range(first, last, {line}):"):
        out.line(f"store_streaming(to, q, load({stage}, q, {line}))")
    out.line(f"copy(to, last, {stage}, last, {count} - last)")
