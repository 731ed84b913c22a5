"""Which generator makes the kernel of an instruction."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from glow_nb.errors import DefinitionError, UnsupportedError
from glow_nb.kernels.source import KernelSource
from glow_nb.kernels.target import Target
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


def generate_kernel(instruction: Instruction, target: Target) -> KernelSource:
    """Return the kernel of *instruction* for *target*; it sees shapes and kinds, not names.

    Its arguments are ``kernel_operands(instruction)``.

    Raises:
        UnsupportedError: There is no kernel for this instruction.
    """
    from glow_nb.kernels import families  # noqa: F401 - registers the generators

    generator = KERNELS.get(type(instruction))
    if generator is None:
        raise UnsupportedError(
            f"{instruction!r}: no kernel for {type(instruction).__name__}; lower it, or add a "
            "generator with @kernel_for to glow_nb.kernels"
        )
    return generator(instruction, target)
