"""The results that may be written over operands (paper 3.5: buffer sharing).

An instruction that is declared in place for an operand reads each element of it before it writes
that element, in the same thread, and never again; only a scatter comes back, to what it wrote
itself. A stack may do so for what it reads element by element: a loop over memory loads a piece of
all operands before it stores a piece of any result. Around a head, that takes a kernel that stores
once (:class:`~glow_nb.llir.traits.KernelTraits`): it loads what its epilogue reads right before it
stores a finished piece.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from glow_nb.base.schema import operand_specs, operands_of
from glow_nb.base.size import hinted
from glow_nb.llir.program import Activation, Buffer, Instruction, Program, mutated, read
from glow_nb.llir.stack import StackInst, tables_in
from glow_nb.llir.traits import Traits, traits_of


def may_lie_on(instruction: Instruction, result: Buffer, source: Buffer) -> bool:
    """Return whether *result* may be written where *source* lies, element by element.

    This follows from what *instruction* means; whether a kernel does it, its traits say. A source
    that the instruction reads by another operand as well is none.
    """
    if isinstance(instruction, StackInst):
        return _stack_may_write(instruction, result, source)
    sources = _fields_of(instruction, source, written=False)
    if not sources or source is instruction.predicate:
        return False
    results = _fields_of(instruction, result, written=True)
    return {(field, taken) for field in results for taken in sources} <= set(instruction.inplace)


def _stack_may_write(stack: StackInst, result: Buffer, source: Buffer) -> bool:
    """Return whether *stack* reads each element of *source* before it stores that of *result*.

    A head may walk over its input several times. What its prologue stores is there from the first
    time on; later only the operand that they make is read, if that is what is stored.
    """
    if source not in stack.sources or result not in stack.results or source in tables_in(stack):
        return False
    head = stack.head
    if head is None:
        return True
    if source in read(head):
        return False
    if not any(result in mutated(member) for member in stack.prologue):
        return True
    return result in read(head) and not any(source in read(member) for member in stack.epilogue)


def _fields_of(instruction: Instruction, buffer: Buffer, *, written: bool) -> list[str]:
    """Return the names of the fields that *buffer* stands in, of those that are *written* or not.

    An ``@inout`` operand counts as both.
    """
    other = "in" if written else "out"
    found = []
    for spec in operand_specs(type(instruction)):
        if spec.qualifier is not None and spec.qualifier.name == other:
            continue
        value = getattr(instruction, spec.name)
        if value is buffer or (spec.is_variadic and any(item is buffer for item in value)):
            found.append(spec.name)
    return found


def is_same_region(left: Buffer, right: Buffer) -> bool:
    """Return whether element by element the two lie at one place, once their roots do."""
    return (
        left.offset == right.offset
        and left.type.shape == right.type.shape
        and left.type.kind.size_bytes == right.type.kind.size_bytes
        and (left.strides == right.strides or (left.is_contiguous and right.is_contiguous))
    )


def is_same_memory(left: Buffer, right: Buffer) -> bool:
    """Return whether element by element the two lie at one place, now."""
    return left.root is right.root and is_same_region(left, right)


def candidates(instruction: Instruction, traits: Traits) -> Iterator[tuple[Buffer, Buffer]]:
    """Yield (result, source) pairs of different regions that could as well be one region.

    Both cover their regions whole, and the instruction touches neither region by another operand.
    """
    head = instruction.head if isinstance(instruction, StackInst) else None
    if head is not None and not traits_of(head, traits).stores_once:
        return
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
    """Return whether *buffer* is its whole region, in the region's order."""
    return buffer.is_contiguous and buffer.type.size == buffer.root.type.size


@dataclass(frozen=True)
class Tenancy:
    """A value in memory that may be shared: bytes, from its first to its last instruction."""

    begin: int
    end: int
    size_bytes: int


def tenancies(program: Program) -> list[Tenancy]:
    """Return the values that the activations hold one after the other, numbered by ``work``.

    One ends and the next begins where a result is written over what the same instruction reads.
    Of open sizes, those of the example count.
    """
    begin: dict[Buffer, int] = {}
    last: dict[Buffer, int] = {}
    found: list[Tenancy] = []
    for number, instruction in enumerate(program.work):
        for root in {buffer.root for buffer in operands_of(instruction)}:
            if isinstance(root, Activation):
                begin.setdefault(root, number)
                last[root] = number
        for root in _written_over(instruction):
            found.append(Tenancy(begin[root], number, hinted(root.type.size_bytes)))
            begin[root] = number
    found += [Tenancy(begin[root], last[root], hinted(root.type.size_bytes)) for root in begin]
    return found


def _written_over(instruction: Instruction) -> set[Buffer]:
    """Return the activations that *instruction* reads and writes, whole and in place."""
    sources = {buffer.root for buffer in read(instruction)}
    return {
        buffer.root
        for buffer in mutated(instruction)
        if isinstance(buffer.root, Activation) and buffer.root in sources and covers_root(buffer)
    }


def peak_of(values: Iterable[Tenancy], *, alignment: int) -> int:
    """Return the largest sum of bytes, each rounded up to *alignment*, live at one time."""
    changes: dict[int, int] = {}
    for value in values:
        size = -(-value.size_bytes // alignment) * alignment
        changes[value.begin] = changes.get(value.begin, 0) + size
        changes[value.end + 1] = changes.get(value.end + 1, 0) - size
    live = peak = 0
    for step in sorted(changes):
        live += changes[step]
        peak = max(peak, live)
    return peak
