"""Which generator makes the kernel of an instruction."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from glow_nb.kernels.writing.source import KernelSource
from glow_nb.llir.program import Instruction
from glow_nb.schema import Registry

Generator = Callable[..., KernelSource]
G = TypeVar("G", bound=Generator)

KERNELS: Registry[type[Instruction], Generator] = Registry("kernel of")
"""Instruction class to the function that writes its kernel; data-parallel ones need none."""


def kernel_for(*instruction_classes: type[Instruction]) -> Callable[[G], G]:
    """Register a function ``(instruction, target) -> KernelSource`` for some instructions.

    If they carry a stack, its third argument is what stands around them: a
    :class:`~glow_nb.kernels.stacks.fusion.Fusion`, or an ``Epilogue`` of register tiles.
    """

    def register(generator: G) -> G:
        for instruction_class in instruction_classes:
            KERNELS.add(instruction_class, generator)
        return generator

    return register
