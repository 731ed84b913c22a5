"""Views that move: the same elements of a value, at the place where the value now lies."""

from __future__ import annotations

from dataclasses import dataclass

from glow_nb.base.schema import operand_specs, operands_of
from glow_nb.base.size import hinted, surely
from glow_nb.llir.in_place import covers_root
from glow_nb.llir.program import Buffer, Instruction, View, kernel_operands
from glow_nb.llir.stack import StackInst, tables_in
from glow_nb.llir.strides import contiguous_strides, divided, reach
from glow_nb.llir.traits import Traits, traits_of
from glow_nb.llir.verify import element_interval


@dataclass
class _Run:
    """Neighbouring axes that one step walks through in both places.

    Attributes:
        count: Elements along the run.
        old_step: Elements from one to the next in the contiguous value.
        new_step: The same in its window.
        low: The first place along the run that a view touches.
        high: The last one.
    """

    count: int
    old_step: int
    new_step: int
    low: int = 0
    high: int = 0


def rebased(buffer: Buffer, old: Buffer, new: Buffer) -> Buffer | None:
    """Return *buffer*, the region *old* or a view of it, as it lies in *new*, of the same shape.

    None if no strides express it: rows that lie one after the other in *old*, and are seen as one
    long row, may have gaps between them in *new*.
    """
    if buffer is old:
        return new
    if not surely(old.type.size, ">", 0):
        return None
    runs = _runs(old.type.shape, new.strides)
    start, rest = 0, buffer.offset
    for run in runs:
        run.low, rest = divided(rest, run.old_step)
        run.high = run.low
        start += run.low * run.new_step
    steps = []
    for size, stride in zip(buffer.type.shape, buffer.strides, strict=True):
        length = stride if surely(stride, ">=", 0) else -stride
        run = next((r for r in runs if surely(r.old_step, "<=", length)), runs[-1])
        times, beside = divided(stride, run.old_step)
        if beside != 0 and not surely(size, "<=", 1):
            return None
        steps.append(times * run.new_step)
        below, above = reach(size, times)
        run.low += below
        run.high += above
    if not all(surely(run.low, ">=", 0) and surely(run.high, "<", run.count) for run in runs):
        return None
    return View(buffer.name, buffer.type, new, start, tuple(steps))


def laid_around(place: Buffer, part: Buffer) -> Buffer | None:
    """Return where the region of *part* lies if *part*, of the type of *place*, lies at *place*.

    None if that is nowhere: *part* has another order or another type, or goes on after the end of
    a row, or what lies around it would reach beyond the region of *place*, or its elements would
    fall upon each other.
    """
    whole = part.root
    if part.type != place.type:
        return None
    if part is whole:
        return place
    if covers_root(part):
        return View(whole.name, whole.type, place) if place.is_contiguous else None
    seen = _seen_whole(part)
    if seen is None:
        return None
    start, rest = place.offset, part.offset
    axes = zip(part.strides, place.strides, part.type.shape, seen.type.shape, strict=True)
    for before, step, size, limit in axes:
        begin, rest = divided(rest, before)
        if not surely(begin + size, "<=", limit):
            return None
        start -= begin * step
    laid = View(seen.name, seen.type, place.root, start, place.strides)
    first, last = element_interval(laid)
    is_inside = surely(first, ">=", 0) and surely(last, "<", place.root.type.size)
    if not is_inside or not _are_distinct(laid):
        return None
    found = rebased(View(whole.name, whole.type, seen), seen, laid)
    return found and View(whole.name, whole.type, place.root, found.offset, found.strides)


def _seen_whole(part: Buffer) -> Buffer | None:
    """Return the region of *part* in the shape in which *part* is a box of it; None if in none."""
    sizes, step = [], part.root.type.size
    for stride in part.strides:
        if not surely(stride, ">", 0) or step % stride != 0:
            return None
        sizes.append(step // stride)
        step = stride
    if step != 1 or not surely(part.type.size, ">", 0):
        return None
    return Buffer(part.root.name, part.type.with_shape(tuple(sizes)))


def _are_distinct(buffer: Buffer) -> bool:
    """Return whether no two elements of *buffer* lie at one place, as its strides show."""
    walked = zip(buffer.strides, buffer.type.shape, strict=True)
    steps = [(s if surely(s, ">=", 0) else -s, n) for s, n in walked if not surely(n, "<=", 1)]
    end = 1
    for step, size in sorted(steps, key=lambda each: (hinted(each[0]), hinted(each[1]))):
        if not surely(step, ">=", end):
            return False
        end = (size - 1) * step + end
    return True


def _runs(shape: tuple[int, ...], steps: tuple[int, ...]) -> list[_Run]:
    """Return the axes of a contiguous *shape* that has *steps* elsewhere, as few as possible."""
    runs = [_Run(1, 1, 1)]
    for size, old, new in reversed(list(zip(shape, contiguous_strides(shape), steps, strict=True))):
        inner = runs[-1]
        if size == 1:
            continue
        if inner.count == 1:
            runs[-1] = _Run(size, old, new)
        elif new == inner.new_step * inner.count:
            inner.count *= size
        else:
            runs.append(_Run(size, old, new))
    return runs[::-1]


def can_be_strided(instruction: Instruction, buffer: Buffer, place: Buffer, traits: Traits) -> bool:
    """Return whether the kernel of *instruction* works with *place* instead of *buffer*."""
    if place.is_contiguous or buffer in tables_in(instruction):
        return place.is_contiguous
    if instruction.scalar:
        return True
    if isinstance(instruction, StackInst):
        return _stack_can_be_strided(instruction, buffer, place, traits)
    if not may_have_gaps(instruction, buffer, traits):
        return False
    return _has_rows(place) if traits_of(instruction, traits).any_rows else _has_pixels(place)


def may_have_gaps(instruction: Instruction, buffer: Buffer, traits: Traits) -> bool:
    """Return whether the kernel of *instruction* takes *buffer* with gaps wherever it reads it."""
    specs = operand_specs(type(instruction))
    fields = {spec.name for spec in specs if getattr(instruction, spec.name) is buffer}
    return bool(fields) and fields <= set(traits_of(instruction, traits).strided)


def _stack_can_be_strided(stack: StackInst, buffer: Buffer, place: Buffer, traits: Traits) -> bool:
    """A stack on tiles reads and stores by pixels what has the shape of its result."""
    head = stack.head
    if head is None:
        return True
    can = traits_of(head, traits)
    if buffer in kernel_operands(head) and not can_be_strided(head, buffer, place, traits):
        return False
    if can.reaches_all:
        return _has_pixels(place)
    before, after = (
        {operand for member in part for operand in operands_of(member)}
        for part in (stack.prologue, stack.epilogue)
    )
    by_pixels = "dest" in can.strided and _has_pixels(place)
    return buffer not in before and (buffer not in after or by_pixels)


def pixel_stride(buffer: Buffer) -> int | None:
    """Return ``s`` if element ``c`` of pixel ``p`` lies at ``p * s + c``; None if there is none.

    A pixel is a row along the last axis; pixels are numbered row-major over the other axes.
    """
    *sizes, channels = buffer.type.shape or (1,)
    *steps, inner = buffer.strides or (1,)
    if inner != 1 and channels != 1:
        return None
    found, expected = channels, None
    for size, step in zip(reversed(sizes), reversed(steps), strict=True):
        if size == 1:
            continue
        if expected is None:
            found = expected = step
        if step != expected:
            return None
        expected = step * size
    return found


def _has_pixels(place: Buffer) -> bool:
    """Return whether rows along the last axis lie at equal distances, one after the other."""
    step = pixel_stride(place)
    return step is not None and surely(step, ">", 0)


def _has_rows(place: Buffer) -> bool:
    """Return whether the elements of each row along the last axis lie side by side."""
    *steps, inner = place.strides or (1,)
    is_row = inner == 1 or place.type.shape[-1] == 1
    return is_row and all(surely(step, ">=", 0) for step in steps)
