"""Which generator makes the kernel of an instruction."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from glow_nb.kernels.stacks.fusion import Fusion
from glow_nb.kernels.target import Target
from glow_nb.kernels.writing.source import KernelSource
from glow_nb.llir.program import Instruction
from glow_nb.schema import Registry

KernelGenerator = Callable[[Any, Target], KernelSource]
"""Writes the kernel of an instruction of one class, or a few."""
HeadGenerator = Callable[[Any, Target, Fusion], KernelSource]
"""Writes the kernel of an instruction and of the stack around it, of which it is the head."""

G = TypeVar("G", bound=KernelGenerator)
H = TypeVar("H", bound=HeadGenerator)

KERNELS: Registry[type[Instruction], KernelGenerator] = Registry("kernel of")
"""Instruction class to the function that writes its kernel; data-parallel ones need none."""

HEADS: Registry[type[Instruction], HeadGenerator] = Registry("kernel of the head")
"""Those whose kernel can carry a stack, to the function that writes it."""


def kernel_for(*instruction_classes: type[Instruction]) -> Callable[[G], G]:
    """Register a function ``(instruction, target) -> KernelSource`` for some instructions."""

    def register(generator: G) -> G:
        for instruction_class in instruction_classes:
            KERNELS.add(instruction_class, generator)
        return generator

    return register


def head_kernel_for(*instruction_classes: type[Instruction]) -> Callable[[H], H]:
    """Register a function ``(head, target, fusion) -> KernelSource`` for some instructions.

    The fusion is what stands around the head: nothing, if the instruction is not in a stack.
    """

    def register(generator: H) -> H:
        @wraps(generator)
        def alone(instruction: Instruction, target: Target) -> KernelSource:
            return generator(instruction, target, Fusion.of(instruction))

        for instruction_class in instruction_classes:
            KERNELS.add(instruction_class, alone)
            HEADS.add(instruction_class, generator)
        return generator

    return register
