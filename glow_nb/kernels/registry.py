"""Which generator makes the kernel of an instruction."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from glow_nb.errors import DefinitionError
from glow_nb.kernels.source import KernelSource
from glow_nb.llir.program import Instruction

Generator = Callable[..., KernelSource]
G = TypeVar("G", bound=Generator)

KERNELS: dict[type[Instruction], Generator] = {}
"""Instruction class to the function that writes its kernel."""


def kernel_for(*instruction_classes: type[Instruction]) -> Callable[[G], G]:
    """Register a function ``(instruction, target) -> KernelSource`` for some instructions.

    If they carry a stack, its third argument is what stands around them: a
    :class:`~glow_nb.kernels.fusion.Fusion`, or an ``Epilogue`` of register tiles.
    """

    def register(generator: G) -> G:
        for instruction_class in instruction_classes:
            if instruction_class in KERNELS:
                raise DefinitionError(f"{instruction_class.__name__} has a kernel already")
            KERNELS[instruction_class] = generator
        return generator

    return register
