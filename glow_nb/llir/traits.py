"""What the kernels of a backend can do, beside what their instructions mean.

An instruction says what is computed. Whether the kernel that computes it can also do the work of
its neighbours, or reach operands that have gaps, is up to the backend that has the kernel. Passes
that depend on it have an option ``traits``. Without them no kernel can do more than it must.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from glow_nb.llir.program import Instruction


@dataclass(frozen=True)
class KernelTraits:
    """What the kernel of an instruction can do, as the head of a stack and alone.

    Attributes:
        fuses_epilogue: It can apply data-parallel instructions to its result before it stores it.
        prologue_operand: The operand that it reads element by element, so that data-parallel
            instructions may compute it there; empty if there is none.
        stores_once: It stores each result once, and loads what its epilogue reads at that place
            right before, in the same thread: the result may lie on what the epilogue reads.
        reaches_all: The instructions around it may read and write operands of any strides;
            otherwise only such as have the shape of the result, vary along the last axis only, or
            are one number.
        strided: Operands that may be windows with gaps between pixels (rows along the last axis);
            those of a data-parallel instruction may always have any strides. If ``dest`` is among
            them, so may what the epilogue reads and writes in the shape of the result.
        is_scalar: It works on one element after the other, and not on vectors of them.
        is_serial: One thread does all of its work, however many there are.
        any_rows: The pixels of the operands in ``strided`` may lie at any distances, as those of
            heads in a part of the channels do.
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
"""Those of a kernel that makes ``dest`` of ``input`` and leaves each result to its epilogue."""
FUSES_BOTH = replace(FUSES_EPILOGUE, prologue_operand="input")
"""Those of one that has its prologue compute each element of ``input``, too."""

Traits = Mapping[type[Instruction], KernelTraits]
"""The traits of a backend's kernels; an instruction that is left out has a kernel without any."""

NO_TRAITS: Traits = MappingProxyType({})
PLAIN = KernelTraits()
"""Those of a kernel that computes its instruction and no more."""
SCALAR = KernelTraits(is_scalar=True)
"""Those of one that does so element by element."""
SERIAL = KernelTraits(is_scalar=True, is_serial=True)
"""Those of one that does so on one thread."""


def traits_of(instruction: Instruction, traits: Traits) -> KernelTraits:
    """Return the traits that the kernel of *instruction* has among *traits*."""
    return traits.get(type(instruction), PLAIN)
