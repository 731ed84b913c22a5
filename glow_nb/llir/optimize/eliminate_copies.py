"""Let values be made where a copy would take them: concat, split, slice without moving memory."""

from __future__ import annotations

from glow_nb.llir.instructions.shape import CopyInst
from glow_nb.llir.lifetimes import mark_lifetimes
from glow_nb.llir.passes import register_pass
from glow_nb.llir.program import (
    Activation,
    Bound,
    Buffer,
    Instruction,
    Program,
    View,
    contiguous_strides,
    mutated,
    pixel_stride,
    read,
)
from glow_nb.llir.stack import StackInst
from glow_nb.schema import map_operands, operand_specs

Box = tuple[tuple[int, int], ...]
"""The half-open range of indices along each axis of a root that a view covers."""


@register_pass
def eliminate_copies(program: Program) -> Program:
    """Write a value straight into the window that a copy would put it in, if all can reach it.

    ::

        %a = alloc float32<1 x 8 x 8 x 16>
        relu @out %a, @in %x                                 relu @out %window, @in %x
        %window = tensor_view %both {...}             ->
        copy @out %window, @in %a
        reduce_sum @out %s, @in %both                        reduce_sum @out %s, @in %both

    The window must be a box of its root that nothing else writes, the value an activation that is
    complete before the copy, and every instruction that touches the value must take strided
    operands there. Copies are looked at last to first, so that a concat of concats becomes one.
    """
    work = list(program.work)
    changed = False
    for number in reversed(range(len(work))):
        copy = work[number]
        if not isinstance(copy, CopyInst) or copy.predicate is not None:
            continue
        moved = _without_copy(work, number, copy.dest, copy.src)
        if moved is not None:
            work, changed = moved, True
    return program.with_instructions(mark_lifetimes(work)) if changed else program


def _without_copy(
    work: list[Instruction], number: int, dest: Buffer, src: Buffer
) -> list[Instruction] | None:
    """Return *work* with *src* made in *dest* and without copy *number*; None if that is wrong."""
    if not isinstance(src, Activation) or src.type != dest.type or dest.root is src:
        return None
    if not isinstance(dest.root, Activation | Bound) or box_of(dest) is None:
        return None
    touching = [(n, i) for n, i in enumerate(work) if n != number and _touches(i, src)]
    if not all(_is_movable(n, i, number, src, dest) for n, i in touching):
        return None
    if not _window_is_free(work, number, dest, {n for n, _ in touching}):
        return None
    places: dict[Buffer, Buffer] = {}

    def place(buffer: Buffer) -> Buffer:
        if buffer not in places:
            places[buffer] = rebased(buffer, src, dest)
        return places[buffer]

    movers = {n for n, _ in touching}
    return [
        map_operands(instruction, place) if n in movers else instruction
        for n, instruction in enumerate(work)
        if n != number
    ]


def _touches(instruction: Instruction, root: Buffer) -> bool:
    return any(b.root is root for b in (*read(instruction), *mutated(instruction)))


def _is_movable(place: int, instruction: Instruction, copy: int, src: Buffer, dest: Buffer) -> bool:
    """True if *instruction* works with *src* where *dest* is, and does not write it too late."""
    if place > copy and any(b.root is src for b in mutated(instruction)):
        return False
    others = [b for b in (*read(instruction), *mutated(instruction)) if b.root is not src]
    if any(b.root is dest.root for b in others) and not _is_disjoint(others, dest):
        return False
    return all(
        _can_be_rebased(buffer, src)
        and can_be_strided(instruction, buffer, rebased(buffer, src, dest))
        for buffer in (*read(instruction), *mutated(instruction))
        if buffer.root is src
    )


def _is_disjoint(buffers: list[Buffer], window: Buffer) -> bool:
    return not any(b.root is window.root and boxes_meet(b, window) for b in buffers)


def _window_is_free(work: list[Instruction], copy: int, dest: Buffer, movers: set[int]) -> bool:
    """True if nothing else writes the window, and nothing reads it before the copy."""
    for number, instruction in enumerate(work):
        if number == copy or number in movers:
            continue
        if any(b.root is dest.root and boxes_meet(b, dest) for b in mutated(instruction)):
            return False
        if number < copy and any(
            b.root is dest.root and boxes_meet(b, dest) for b in read(instruction)
        ):
            return False
    return True


def can_be_strided(instruction: Instruction, buffer: Buffer, place: Buffer) -> bool:
    """True if the kernel of *instruction* works with *place* instead of *buffer*."""
    if place.is_contiguous or instruction.scalar:
        return True
    if isinstance(instruction, StackInst):
        return _stack_can_be_strided(instruction, buffer, place)
    specs = operand_specs(type(instruction))
    fields = {spec.name for spec in specs if getattr(instruction, spec.name) is buffer}
    return bool(fields) and fields <= set(instruction.strided) and pixel_stride(place) is not None


def _stack_can_be_strided(stack: StackInst, buffer: Buffer, place: Buffer) -> bool:
    """A stack on tiles stores its result by pixels, if it reads nothing else of that shape."""
    head = stack.head
    if head is None:
        return True
    if buffer in read(head) or (head.reaches_all and buffer in mutated(head)):
        return can_be_strided(head, buffer, place)
    if head.reaches_all:
        return pixel_stride(place) is not None
    others = (b for b in stack.sources if b not in read(head))
    return (
        stack.results == (buffer,)
        and "dest" in head.strided
        and pixel_stride(place) is not None
        and not any(b.type.shape == buffer.type.shape for b in others)
    )


def _can_be_rebased(buffer: Buffer, root: Buffer) -> bool:
    """True if *buffer* is *root* or a chain of boxes of it: then it has a place in any window."""
    return buffer is root or box_of(buffer) is not None


def rebased(buffer: Buffer, old: Buffer, new: Buffer) -> Buffer:
    """Return *buffer*, which lies in *old* or elsewhere, as it lies in *new*."""
    if buffer.root is not old:
        return buffer
    if buffer is old:
        return new
    box = box_of(buffer)
    assert box is not None, buffer
    start = sum(begin * step for (begin, _), step in zip(box, new.strides, strict=True))
    return View(buffer.name, buffer.type, new, start, new.strides)


def box_of(buffer: Buffer) -> Box | None:
    """Return which indices of its root *buffer* covers; None if it is not a box of it."""
    root = buffer.root
    shape, strides = root.type.shape, contiguous_strides(root.type.shape)
    if len(buffer.type.shape) != len(shape) or not root.type.size:
        return None
    box: list[tuple[int, int]] = []
    rest = buffer.offset
    for size, stride, extent, step in zip(
        shape, strides, buffer.type.shape, buffer.strides, strict=True
    ):
        if step != stride and extent != 1 and size != 1:
            return None
        begin = rest // stride if size != 1 else 0
        rest -= begin * stride
        if begin + extent > size:
            return None
        box.append((begin, begin + extent))
    return tuple(box)


def boxes_meet(left: Buffer, right: Buffer) -> bool:
    """True unless the two are boxes of one root without a common element."""
    boxes = box_of(left), box_of(right)
    if boxes[0] is None or boxes[1] is None:
        return True
    return all(
        a_begin < b_end and b_begin < a_end
        for (a_begin, a_end), (b_begin, b_end) in zip(boxes[0], boxes[1], strict=True)
    )
