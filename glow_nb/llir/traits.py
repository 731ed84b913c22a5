"""The abilities of the kernels of a backend besides computing their instructions.

An instruction says what is computed. Whether its kernel can also compute neighbouring instructions,
or read operands that have gaps, depends on the backend. Passes that depend on this have an option
``traits``. A kernel without traits only computes its instruction.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from glow_nb.llir.program import Instruction


@dataclass(frozen=True)
class KernelTraits:
    """The abilities of the kernel of an instruction, as the head of a stack and alone.

    Attributes:
        fuses_epilogue: It can apply data-parallel instructions to its result before it stores it.
        prologue_operand: The operand that it reads element by element, so that data-parallel
            instructions may compute it there; empty if there is none.
        stores_once: It stores each result once, and loads the epilogue's operands at that place
            right before, in the same thread: the result may share memory with an operand of the
            epilogue.
        reaches_all: The instructions around it may read and write operands of any strides;
            otherwise only operands that have the shape of the result, vary only along the last
            axis, or are one number.
        strided: Operands that may be windows with gaps between pixels (rows along the last axis);
            those of a data-parallel instruction may always have any strides. If ``dest`` is among
            them, this holds for operands of the epilogue with the shape of the result, too.
        is_scalar: It computes one element after the other, without vectors.
        is_serial: One thread executes all of it, however many threads there are.
        any_rows: The pixels of the operands in ``strided`` may have any distances, as for heads
            that are a part of the channels.
    """

    fuses_epilogue: bool = False
    prologue_operand: str = ""
    stores_once: bool = False
    reaches_all: bool = False
    strided: tuple[str, ...] = ()
    is_scalar: bool = False
    is_serial: bool = False
    any_rows: bool = False


FUSES_EPILOGUE = KernelTraits(
    fuses_epilogue=True, stores_once=True, reaches_all=True, strided=("dest", "input")
)
"""The traits of a kernel that computes ``dest`` from ``input`` and applies its epilogue to each
result."""
FUSES_BOTH = replace(FUSES_EPILOGUE, prologue_operand="input")
"""The traits of a kernel whose prologue also computes each element of ``input``."""

Traits = Mapping[type[Instruction], KernelTraits]
"""The traits of a backend's kernels; the kernel of an instruction that is left out has no
traits."""

NO_TRAITS: Traits = MappingProxyType({})
PLAIN = KernelTraits()
"""The traits of a kernel that only computes its instruction."""
SCALAR = KernelTraits(is_scalar=True)
"""The traits of a kernel that does so element by element."""
SERIAL = KernelTraits(is_scalar=True, is_serial=True)
"""The traits of a kernel that does so on one thread."""


def traits_of(instruction: Instruction, traits: Traits) -> KernelTraits:
    """Return the traits that the kernel of *instruction* has among *traits*."""
    return traits.get(type(instruction), PLAIN)
