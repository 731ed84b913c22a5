"""Choosing some of many, one after the other.

One thread does it, since each place of the result depends on what was chosen before.
"""

from __future__ import annotations

from glow_nb.kernels.registry import kernel_for
from glow_nb.kernels.rows import require_contiguous
from glow_nb.kernels.source import KernelSource, SourceWriter
from glow_nb.kernels.target import Target
from glow_nb.llir.instructions.selection import NonMaxSuppressionInst, NonZeroInst
from glow_nb.types import ElementKind

INT64, FLOAT32 = ElementKind.INT64, ElementKind.FLOAT32

_CORNERS_BYTES = 16
_NUMBER_BYTES = 4


@kernel_for(NonZeroInst)
def non_zero_source(instruction: NonZeroInst, target: Target) -> KernelSource:
    """Return the kernel ``(places, count, input)`` that lists the places of what is not zero."""
    require_contiguous(instruction)
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


@kernel_for(NonMaxSuppressionInst)
def non_max_suppression_source(
    instruction: NonMaxSuppressionInst,
    target: Target,
) -> KernelSource:
    """Return the kernel ``(places, count, boxes, scores, overlap, threshold)``.

    Scratch holds the corners of the boxes of one batch, and the numbers of those that are left of
    one class. Each round takes the best of these, and goes over the others once: it drops what
    overlaps with the best, and finds the next.
    """
    require_contiguous(instruction)
    batches, classes, boxes = instruction.scores.type.shape
    out = SourceWriter()
    arguments = "places, count, boxes, scores, overlap, threshold, scratch, thread, threads"
    with out.block(f"def kernel({arguments}):"):
        with out.block("if thread == 0:"):
            out.line(f"clear(places, 0, {instruction.places.type.size})\nfound = 0")
            if instruction.places.type.size:
                out.line("corners = as_float32(scratch)")
                out.line(f"left = as_int32(at(scratch, {boxes * _CORNERS_BYTES}))")
                with out.block(f"for batch in range({batches}):"):
                    _write_corners(out, instruction, boxes)
                    with out.block(f"for number in range({classes}):"):
                        _write_class(out, classes, boxes, instruction.limit)
            out.line("put(count, 0, found)")
    kinds = (INT64, INT64, FLOAT32, FLOAT32, FLOAT32, FLOAT32)
    scratch = boxes * (_CORNERS_BYTES + _NUMBER_BYTES)
    return KernelSource("non_max_suppression", out.text, kinds, scratch)


def _write_corners(out: SourceWriter, instruction: NonMaxSuppressionInst, boxes: int) -> None:
    """Write the least and the greatest coordinates of each box of the batch into scratch."""
    with out.block(f"for i in range({boxes}):"):
        for direction in range(2):
            place = f"(batch * {boxes} + i) * 4 + {direction}"
            out.line(f"a = get(boxes, {place})\nb = get(boxes, {place} + 2)")
            if instruction.is_centered:
                least, greatest = "a - b * 0.5", "a + b * 0.5"
            else:
                least, greatest = "a if a < b else b", "b if a < b else a"
            out.line(f"put(corners, i * 4 + {direction}, {least})")
            out.line(f"put(corners, i * 4 + {direction + 2}, {greatest})")


def _write_class(out: SourceWriter, classes: int, boxes: int, limit: int) -> None:
    out.line(f"base = (batch * {classes} + number) * {boxes}")
    out.line("least = get(threshold, 0)\nbest = 0\ntop = least\ncount_left = 0")
    with out.block(f"for i in range({boxes}):"):
        out.line("score = get(scores, base + i)")
        with out.block("if score > least:"):
            _write_keep(out, "i", "count_left")
    out.line("taken = 0")
    with out.block(f"while count_left > 0 and taken < {limit}:"):
        out.line("chosen = best")
        for column, value in enumerate(("batch", "number", "chosen")):
            out.line(f"put(places, found * 3 + {column}, {value})")
        out.line("found = found + 1\ntaken = taken + 1")
        for index, name in enumerate(("y0", "x0", "y1", "x1")):
            out.line(f"{name} = get(corners, chosen * 4 + {index})")
        out.line("area = (x1 - x0) * (y1 - y0)\ntop = least\nkept = 0")
        with out.block("for k in range(count_left):"):
            out.line("i = get(left, k)")
            with out.block("if i != chosen:"):
                _write_overlap(out)
                with out.block("if not is_over:"):
                    out.line("score = get(scores, base + i)")
                    _write_keep(out, "i", "kept")
        out.line("count_left = kept")


def _write_keep(out: SourceWriter, box: str, count: str) -> None:
    """Write that *box*, of the present score, stays; the best so far is remembered."""
    out.line(f"put(left, {count}, {box})\n{count} = {count} + 1")
    with out.block("if score > top:"):
        out.line(f"top = score\nbest = {box}")


def _write_overlap(out: SourceWriter) -> None:
    """Write whether box ``i`` overlaps with the chosen one by too much."""
    for index, name in enumerate(("v0", "u0", "v1", "u1")):
        out.line(f"{name} = get(corners, i * 4 + {index})")
    for low, high, a, b in (("y0", "y1", "v0", "v1"), ("x0", "x1", "u0", "u1")):
        side = "height" if a == "v0" else "width"
        out.line(f"low = {low} if {low} > {a} else {a}\nhigh = {high} if {high} < {b} else {b}")
        out.line(f"{side} = high - low")
    out.line("common = width * height\nother = (u1 - u0) * (v1 - v0)")
    out.line("union = area + other - common\nis_over = False")
    with out.block(
        "if width > 0 and height > 0 and common > 0 and area > 0 and other > 0 and union > 0:"
    ):
        out.line("is_over = common / union > get(overlap, 0)")
