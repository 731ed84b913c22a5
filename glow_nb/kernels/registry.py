"""The table of the cpu's kernels: which function writes the kernel of an instruction."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from glow_nb.errors import DefinitionError
from glow_nb.kernels.stacks.elementwise import elementwise_source
from glow_nb.kernels.stacks.fusion import Fusion
from glow_nb.kernels.target import Target
from glow_nb.kernels.writing.source import KernelSource
from glow_nb.llir.kernel_table import KernelTable
from glow_nb.llir.program import Instruction
from glow_nb.llir.traits import PLAIN, KernelTraits

KernelGenerator = Callable[[Any, Target], KernelSource]
"""Writes the kernel of an instruction of one class, or a few."""
HeadGenerator = Callable[[Any, Target, Fusion], KernelSource]
"""Writes the kernel of an instruction and of the stack around it, of which it is the head."""

G = TypeVar("G", bound=KernelGenerator)
H = TypeVar("H", bound=HeadGenerator)

CPU_KERNELS = KernelTable("cpu", scalar=elementwise_source)
"""Complete once :mod:`glow_nb.kernels.cpu_kernels` is imported."""


def kernel_for(
    *instruction_classes: type[Instruction], traits: KernelTraits = PLAIN
) -> Callable[[G], G]:
    """Register a function ``(instruction, target) -> KernelSource`` for some instructions.

    *traits* may say which operands may have gaps.

    Raises:
        DefinitionError: They say that the kernel fuses: :func:`head_kernel_for` registers it then.
    """
    if traits.fuses_epilogue or traits.prologue_operand:
        names = ", ".join(each.__name__ for each in instruction_classes)
        raise DefinitionError(
            f"cpu kernel of {names}: a kernel that fuses takes a Fusion as well; register it with "
            "@head_kernel_for"
        )
    return CPU_KERNELS.kernel_for(*instruction_classes, traits=traits)


def head_kernel_for(
    *instruction_classes: type[Instruction], traits: KernelTraits
) -> Callable[[H], H]:
    """Register a function ``(head, target, fusion) -> KernelSource`` for some instructions.

    The fusion is what stands around the head: nothing, if the instruction is not in a stack.
    *traits* say what may stand there.
    """

    def register(generator: H) -> H:
        @wraps(generator)
        def with_fusion(instruction: Instruction, target: Target) -> KernelSource:
            fusion = Fusion.of(instruction)  # of a stack, or of a head that is alone
            return generator(fusion.head, target, fusion)

        CPU_KERNELS.kernel_for(*instruction_classes, traits=traits)(with_fusion)
        return generator

    return register
