"""The box of the best score among boxes that overlap.

One thread does it, since each box is compared with those chosen before. Several of these are
compared at a time, one in each lane.
"""

from __future__ import annotations

from glow_nb.base.size import surely
from glow_nb.base.types import ElementKind
from glow_nb.fuse.vector_code import number_text
from glow_nb.kernels.registry import kernel_for
from glow_nb.kernels.target import Target
from glow_nb.kernels.writing.heap import write_heap, write_sift_down
from glow_nb.kernels.writing.source import KernelSource, SourceWriter
from glow_nb.kernels.writing.vectors import native_lanes
from glow_nb.llir.instructions.selection import NonMaxSuppressionInst
from glow_nb.llir.traits import SERIAL

INT64, FLOAT32 = ElementKind.INT64, ElementKind.FLOAT32

_SIDES = ("y0", "x0", "y1", "x1")
"""The least coordinates of a box and the greatest."""

_KEY_BYTES, _NUMBER_BYTES = 8, 4


@kernel_for(NonMaxSuppressionInst, traits=SERIAL)
def non_max_suppression_source(instruction: NonMaxSuppressionInst, target: Target) -> KernelSource:
    """Return the kernel ``(places, count, boxes, scores, overlap, threshold)``.

    Scratch holds a heap of the boxes of one class, and the sides of those that were chosen. The
    best that is left is taken from the heap and compared with those chosen before.
    """
    batches, classes, boxes = instruction.scores.type.shape
    lanes = native_lanes(target, FLOAT32)
    room = min(boxes, instruction.limit) + lanes
    out, begin = SourceWriter(), boxes * _KEY_BYTES
    arguments = "places, count, boxes, scores, overlap, threshold, scratch, thread, threads"
    with out.block(f"def kernel({arguments}):"):
        with out.block("if thread == 0:"):
            out.line(f"clear(places, 0, {instruction.places.type.size})\nfound = 0")
            if not surely(instruction.places.type.size, "==", 0):
                out.line("heap = as_int64(scratch)\nbits = as_int32(scores)")
                for side in (*_SIDES, "area"):
                    out.line(f"chosen_{side} = as_float32(at(scratch, {begin}))")
                    begin += room * _NUMBER_BYTES
                with out.block(f"for batch in range({batches}):"):
                    with out.block(f"for number in range({classes}):"):
                        _write_heap(out, classes, boxes, lanes)
                        _write_choice(out, instruction, boxes, lanes)
            out.line("put(count, 0, found)")
    kinds = (INT64, INT64, FLOAT32, FLOAT32, FLOAT32, FLOAT32)
    return KernelSource("non_max_suppression", out.text, kinds, begin)


def _write_heap(out: SourceWriter, classes: int, boxes: int, lanes: int) -> None:
    """Write the heap of the boxes above the threshold; most vectors of scores mostly have none."""
    out.line(f"base = (batch * {classes} + number) * {boxes}\nlength = 0")
    out.line(f"bound = broadcast(threshold, 0, {lanes})")
    whole = boxes - boxes % lanes
    if not surely(whole, "==", 0):
        with out.block(f"for first in range(0, {whole}, {lanes}):"):
            with out.block(f"if reduce_or(greater(load(scores, base + first, {lanes}), bound)):"):
                _write_keys(out, f"first, first + {lanes}", boxes)
    if not surely(whole, "==", boxes):
        _write_keys(out, f"{whole}, {boxes}", boxes)
    write_heap(out, _is_greater)


def _write_keys(out: SourceWriter, places: str, boxes: int) -> None:
    """Write the keys of those boxes whose score is above the threshold.

    A key has the score in its upper half, in an order that integers have, and then the number of
    the box from the end: equal scores go by the box's number.
    """
    with out.block(f"for i in range({places}):"):
        out.line("key = get(bits, base + i)")
        out.line(f"key = key if key >= 0 else {-(2**31)} - key")
        out.line(f"put(heap, length, (key << 32) + ({boxes - 1} - i))")
        out.line("length = length + (1 if get(scores, base + i) > get(threshold, 0) else 0)")


def _is_greater(out: SourceWriter, first: str, second: str) -> None:
    out.line(f"is_first = {first} > {second}")


def _write_choice(
    out: SourceWriter, instruction: NonMaxSuppressionInst, boxes: int, lanes: int
) -> None:
    """Write the loop over the boxes of a class, the best first, that adds to the places."""
    out.line("begin = found\nrivals = 0")
    with out.block(f"while length > 0 and found - begin < {instruction.limit}:"):
        out.line("key = get(heap, 0)\nlength = length - 1\nput(heap, 0, get(heap, length))")
        write_sift_down(out, "0", _is_greater)
        out.line(f"i = {boxes - 1} - (key & {2**32 - 1})")
        _write_sides(out, instruction, boxes)
        out.line("area = (x1 - x0) * (y1 - y0)\nis_over = False")
        with out.block("if area > 0:"):
            _write_overlaps(out, lanes)
        with out.block("if not is_over:"):
            for column, value in enumerate(("batch", "number", "i")):
                out.line(f"put(places, found * 3 + {column}, {value})")
            out.line("found = found + 1")
            with out.block("if area > 0:"):  # no other box has an overlap with anything
                _write_rival(out, lanes)


def _write_sides(out: SourceWriter, instruction: NonMaxSuppressionInst, boxes: int) -> None:
    """Write the least and the greatest coordinates of box ``i``."""
    for direction, name in enumerate("yx"):
        place = f"(batch * {boxes} + i) * 4 + {direction}"
        out.line(f"a = get(boxes, {place})\nb = get(boxes, {place} + 2)")
        if instruction.is_centered:
            least, greatest = "a - b * 0.5", "a + b * 0.5"
        else:
            least, greatest = "a if a < b else b", "b if a < b else a"
        out.line(f"{name}0 = {least}\n{name}1 = {greatest}")


def _write_rival(out: SourceWriter, lanes: int) -> None:
    """Write the box to those that others are compared with; lanes without one overlap nothing."""
    with out.block(f"if rivals % {lanes} == 0:"):
        empty = f"splat_float32({number_text(float('inf'))}, {lanes})"
        out.line(f"store(chosen_y0, rivals, {empty})")
    for side in (*_SIDES, "area"):
        out.line(f"put(chosen_{side}, rivals, {side})")
    out.line("rivals = rivals + 1")


def _write_overlaps(out: SourceWriter, lanes: int) -> None:
    """Write whether the box overlaps too much with one that was chosen."""
    for side in (*_SIDES, "area"):
        out.line(f"all_{side} = splat_float32({side}, {lanes})")
    out.line(f"zero = splat_float32(0.0, {lanes})\nmost = broadcast(overlap, 0, {lanes})")
    with out.block(f"for k in range(0, rivals, {lanes}):"):
        for axis, side in (("y", "height"), ("x", "width")):
            low, high = (f"load(chosen_{axis}{end}, k, {lanes})" for end in range(2))
            out.line(f"low = at_least(all_{axis}0, {low})\nhigh = at_most(all_{axis}1, {high})")
            out.line(f"{side} = sub(high, low)")
        out.line("common = mul(width, height)")
        out.line(f"union = sub(add(all_area, load(chosen_area, k, {lanes})), common)")
        out.line("is_real = bit_and(less(zero, width), less(zero, height))")
        out.line("is_real = bit_and(is_real, bit_and(less(zero, common), less(zero, union)))")
        with out.block("if reduce_or(bit_and(is_real, greater(div(common, union), most))):"):
            out.line("is_over = True\nbreak")
