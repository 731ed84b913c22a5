"""Kernels of stacks: a loop over memory, or the kernel of the head (paper 5.2)."""

from __future__ import annotations

from glow_nb.base.errors import UnsupportedError
from glow_nb.fuse.loop_body import LoopBody
from glow_nb.kernels.registry import CPU_KERNELS, kernel_for
from glow_nb.kernels.stacks.elementwise import loop_source
from glow_nb.kernels.target import Target
from glow_nb.kernels.writing.source import KernelSource
from glow_nb.llir.program import kernel_operands
from glow_nb.llir.stack import StackInst
from glow_nb.llir.traits import traits_of


@kernel_for(StackInst)
def generate_stack(stack: StackInst, target: Target) -> KernelSource:
    """Return the kernel of a stack."""
    head = stack.head
    if head is None:
        return loop_source(LoopBody(stack.body, stack.results), target, kernel_operands(stack))
    can = traits_of(head, CPU_KERNELS.traits)
    if not (can.fuses_epilogue or can.prologue_operand):
        raise UnsupportedError(
            f"{head!r}: the kernel of {type(head).__name__} cannot be the head of a stack; write "
            "one that takes a Fusion, and register it with "
            "@glow_nb.kernels.registry.head_kernel_for"
        )
    source: KernelSource = CPU_KERNELS[type(head)](stack, target)
    return source
