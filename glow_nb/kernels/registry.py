"""The table of the cpu's kernels: which function writes the kernel of an instruction."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from glow_nb.kernels.stacks.elementwise import elementwise_source
from glow_nb.kernels.writing.source import KernelSource
from glow_nb.llir.kernel_table import KernelTable
from glow_nb.llir.program import Instruction
from glow_nb.llir.traits import KernelTraits

G = TypeVar("G", bound=Callable[..., KernelSource])

CPU_KERNELS = KernelTable("cpu", scalar=elementwise_source)
"""Complete once :mod:`glow_nb.kernels.cpu_kernels` is imported."""


def kernel_for(
    *instruction_classes: type[Instruction], traits: KernelTraits | None = None
) -> Callable[[G], G]:
    """Register a function ``(instruction, target) -> KernelSource`` for some instructions.

    If *traits* say that it takes part in stacks, its third argument is what stands around it: a
    :class:`~glow_nb.kernels.stacks.fusion.Fusion`, or an ``Epilogue`` of register tiles.
    """
    return CPU_KERNELS.kernel_for(*instruction_classes, traits=traits or KernelTraits())
