"""What of a program's values is -inf by its meaning: scores of attention that a pass has hidden."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

import numpy as np

from glow_nb.llir.program import Buffer, Instruction, Program, Weight, mutated, read
from glow_nb.llir.stack import StackInst

_CHOOSES = "select"
"""The instruction that replaces a score by -inf."""

_KEEP = frozenset({_CHOOSES, "reduce_max", "convert_to", "copy", "transpose"})
"""Instructions that keep numbers as they are: a softmax after them makes zeros of -inf."""


def hidden_values(
    program: Program, is_of_model: Callable[[Instruction, Weight], bool]
) -> Collection[Buffer]:
    """Return the buffers of *program* that -inf may come to from a constant of the compiler.

    What *is_of_model*, asked for an instruction and a constant that it reads, is the user's.
    """
    held = [w for w in program.weights if w.type.kind.is_float and w.type.size]
    infinite = {weight: weight for weight in held if bool(np.isneginf(weight.array).all())}
    found: set[Buffer] = set()
    for instruction in _members(program) if infinite else ():
        constants = [infinite[b] for b in read(instruction) if b in infinite]
        if instruction.opcode == _CHOOSES and constants:
            is_meant = not any(is_of_model(instruction, one) for one in constants)
        else:
            is_meant = instruction.opcode in _KEEP and not found.isdisjoint(read(instruction))
        if is_meant:
            found.update(mutated(instruction))
        else:
            found.difference_update(mutated(instruction))
    return found


def _members(program: Program) -> Iterator[Instruction]:
    """Yield the instructions that compute, those in stacks one by one."""
    for instruction in program.work:
        if isinstance(instruction, StackInst):
            yield from instruction.body
        else:
            yield instruction
