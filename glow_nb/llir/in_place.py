"""Which results an instruction may write over what it reads (paper 3.5: buffer sharing).

An instruction that is declared in place for an operand reads each element of it before it writes
that element, in the same thread, and never again. A stack does so for what it reads element by
element: a loop over memory loads a piece of all operands before it stores a piece of any result,
and the kernel of a head that says so (``stack_in_place``) loads the operands of what rides on it
right before it stores a finished piece, which it does once.
"""

from __future__ import annotations

from collections.abc import Iterator

from glow_nb.llir.program import Buffer, Instruction, mutated, read
from glow_nb.llir.stack import StackInst
from glow_nb.schema import operand_specs, operands_of


def may_lie_on(instruction: Instruction, result: Buffer, source: Buffer) -> bool:
    """True if *result* may be written where *source* lies, if both are exactly the same elements.

    A source that the instruction reads in some other way as well is none.
    """
    if isinstance(instruction, StackInst):
        return _stack_may_write(instruction, result, source)
    sources = _fields_of(instruction, source)
    if not sources or source is instruction.predicate:
        return False
    pairs = {(field, taken) for field in _fields_of(instruction, result) for taken in sources}
    return pairs <= set(instruction.inplace)


def _stack_may_write(stack: StackInst, result: Buffer, source: Buffer) -> bool:
    """True if *stack* reads each element of *source* for the last time before it stores *result*.

    A head may walk over its input several times. What its producers store is there from the first
    time on; later only the operand that it draws is read, if that is what is stored.
    """
    if source not in stack.sources or result not in stack.results:
        return False
    head = stack.head
    if head is None:
        return True
    if not head.stack_in_place or source in read(head):
        return False
    if not any(result in mutated(producer) for producer in stack.producers):
        return True
    return result in read(head) and not any(source in read(rider) for rider in stack.riders)


def _fields_of(instruction: Instruction, buffer: Buffer) -> list[str]:
    """Return the names of the operand fields that *buffer* stands in."""
    found = []
    for spec in operand_specs(type(instruction)):
        value = getattr(instruction, spec.name)
        if value is buffer or (spec.is_variadic and any(item is buffer for item in value)):
            found.append(spec.name)
    return found


def is_same_region(left: Buffer, right: Buffer) -> bool:
    """True if element by element the two lie at one place, once their roots do."""
    return (
        left.offset == right.offset
        and left.type.shape == right.type.shape
        and left.type.kind.size_bytes == right.type.kind.size_bytes
        and (left.strides == right.strides or (left.is_contiguous and right.is_contiguous))
    )


def candidates(instruction: Instruction) -> Iterator[tuple[Buffer, Buffer]]:
    """Yield (result, source) pairs of different regions that could as well be one region.

    Both cover their regions whole, and the instruction touches neither region in any other way.
    """
    touched: dict[Buffer, list[Buffer]] = {}
    for buffer in operands_of(instruction):
        touched.setdefault(buffer.root, []).append(buffer)
    for result in filter(covers_root, mutated(instruction)):
        for source in dict.fromkeys(read(instruction)):
            if (
                source.root is not result.root
                and source.type.kind is result.type.kind
                and covers_root(source)
                and is_same_region(result, source)
                and all(b is source for b in touched[source.root])
                and may_lie_on(instruction, result, source)
            ):
                yield result, source


def covers_root(buffer: Buffer) -> bool:
    """True if *buffer* is its whole region, in the region's order."""
    return buffer.is_contiguous and buffer.type.size == buffer.root.type.size
