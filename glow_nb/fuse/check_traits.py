"""Return whether the kernel of an instruction can do what a program asks of it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, product

from glow_nb.base.errors import UnsupportedError
from glow_nb.base.schema import operands_of
from glow_nb.fuse.stack_instructions import has_reachable_shape
from glow_nb.llir.program import Instruction, kernel_operands, mutated, read
from glow_nb.llir.stack import StackInst
from glow_nb.llir.traits import Traits, traits_of
from glow_nb.llir.verify import may_overlap
from glow_nb.llir.windows import can_be_strided, may_have_gaps


def check_traits(instruction: Instruction, traits: Traits) -> None:
    """Raise UnsupportedError if *instruction* asks for more than the *traits* of its kernel.

    Programs that passes have made with these traits do not; one that is given as text may.
    """
    for problem in chain(_gaps(instruction, traits), _limits_of_head(instruction, traits)):
        raise UnsupportedError(f"{instruction!r}: {problem}")


def _gaps(instruction: Instruction, traits: Traits) -> Iterator[str]:
    """Yield what is wrong with operands whose elements do not lie side by side."""
    head = instruction.head if isinstance(instruction, StackInst) else None
    if head is not None and traits_of(head, traits).reaches_all:
        instruction = head  # what stands around it may have any strides
    for buffer in kernel_operands(instruction):
        # Passes ask for gaps between pixels alone; a kernel may take others where it takes these.
        if not (
            can_be_strided(instruction, buffer, buffer, traits)
            or may_have_gaps(instruction, buffer, traits)
        ):
            yield (
                f"its kernel cannot step over the gaps in {buffer!r}, whose strides are "
                f"{list(buffer.strides)}; copy it to a place without gaps"
            )


def _limits_of_head(stack: Instruction, traits: Traits) -> Iterator[str]:
    """Yield what the kernel of the head, if *stack* has one, cannot do of what stands around it."""
    if not isinstance(stack, StackInst) or stack.head is None:
        return
    head = stack.head
    can, kernel = traits_of(head, traits), f"the kernel of {head.opcode}"
    if stack.epilogue and not can.fuses_epilogue:
        yield f"{kernel} cannot go on with its result; take {head.opcode} out of the stack"
    operand = getattr(head, can.prologue_operand) if can.prologue_operand else None
    if stack.prologue and stack.fused_operand is not operand:
        yield f"{kernel} cannot compute {stack.fused_operand!r}; take what does out of the stack"
    for member in () if can.reaches_all else (*stack.prologue, *stack.epilogue):
        for buffer in operands_of(member):
            if not has_reachable_shape(buffer, member):
                yield (
                    f"{kernel} cannot reach {buffer!r} : {buffer.type}; "
                    f"take {member.opcode} out of the stack"
                )
    for result, source in () if can.stores_once else product(mutated(stack), read(stack)):
        if may_overlap(result, source):
            yield f"{kernel} cannot write {result!r} over {source!r}; give it memory of its own"
