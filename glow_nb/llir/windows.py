"""Views that move: the same elements of a value, at the place where the value now lies."""

from __future__ import annotations

from dataclasses import dataclass

from glow_nb.llir.program import (
    Buffer,
    Instruction,
    View,
    contiguous_strides,
    mutated,
    pixel_stride,
    read,
)
from glow_nb.llir.stack import StackInst
from glow_nb.llir.traits import Traits, traits_of
from glow_nb.schema import operand_specs


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

    None if no strides express it: rows that lie one behind the other in *old*, and are seen as one
    long row, may have gaps between them in *new*.
    """
    if buffer is old:
        return new
    if not old.type.size:
        return None
    runs = _runs(old.type.shape, new.strides)
    start, rest = 0, buffer.offset
    for run in runs:
        run.low = run.high = rest // run.old_step
        rest %= run.old_step
        start += run.low * run.new_step
    steps = []
    for size, stride in zip(buffer.type.shape, buffer.strides, strict=True):
        run = next((r for r in runs if r.old_step <= abs(stride)), runs[-1])
        times, beside = divmod(stride, run.old_step)
        if beside and size > 1:
            return None
        steps.append(times * run.new_step)
        run.low += min(0, times * (size - 1))
        run.high += max(0, times * (size - 1))
    if not all(run.low >= 0 and run.high < run.count for run in runs):
        return None
    return View(buffer.name, buffer.type, new, start, tuple(steps))


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
    """True if the kernel of *instruction* works with *place* instead of *buffer*."""
    if place.is_contiguous or instruction.scalar:
        return True
    if isinstance(instruction, StackInst):
        return _stack_can_be_strided(instruction, buffer, place, traits)
    return may_have_gaps(instruction, buffer, traits) and _has_pixels(place)


def may_have_gaps(instruction: Instruction, buffer: Buffer, traits: Traits) -> bool:
    """True if *buffer* is only such operands of *instruction* as its kernel takes with gaps."""
    specs = operand_specs(type(instruction))
    fields = {spec.name for spec in specs if getattr(instruction, spec.name) is buffer}
    return bool(fields) and fields <= set(traits_of(instruction, traits).strided)


def _stack_can_be_strided(stack: StackInst, buffer: Buffer, place: Buffer, traits: Traits) -> bool:
    """A stack on tiles stores its result by pixels, if it reads nothing else of that shape."""
    head = stack.head
    if head is None:
        return True
    can = traits_of(head, traits)
    if buffer in read(head) or (can.reaches_all and buffer in mutated(head)):
        return can_be_strided(head, buffer, place, traits)
    if can.reaches_all:
        return _has_pixels(place)
    others = (b for b in stack.sources if b not in read(head))
    return (
        stack.results == (buffer,)
        and "dest" in can.strided
        and _has_pixels(place)
        and not any(b.type.shape == buffer.type.shape for b in others)
    )


def _has_pixels(place: Buffer) -> bool:
    """True if rows along the last axis lie at equal distances, one after the other."""
    step = pixel_stride(place)
    return step is not None and step > 0
