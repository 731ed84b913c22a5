"""The kernel of any instruction: importing this module registers all generators."""

from __future__ import annotations

from glow_nb.errors import CompileError, UnsupportedError
from glow_nb.foreign import foreign, name_of
from glow_nb.hlir.graph import Node
from glow_nb.kernels.movement import gather, pad, repeat, scatter
from glow_nb.kernels.products import convolution, depthwise, matmul
from glow_nb.kernels.reductions import (
    arg_reduction,
    cumulative_sum,
    determinant,
    layer_normalization,
    local_response_normalization,
    reduction,
    softmax,
)
from glow_nb.kernels.registry import KERNELS, KernelGenerator
from glow_nb.kernels.selection import selection, top_k
from glow_nb.kernels.stacks import generate_stack
from glow_nb.kernels.stacks.elementwise import elementwise_source
from glow_nb.kernels.target import Target
from glow_nb.kernels.transposes import transpose
from glow_nb.kernels.windows import pooling, roi_align
from glow_nb.kernels.winograd import convolution as winograd
from glow_nb.kernels.writing.source import KernelSource
from glow_nb.llir.generate import GENERATORS
from glow_nb.llir.program import INSTRUCTIONS, Instruction

__all__ = [
    "arg_reduction",
    "convolution",
    "cumulative_sum",
    "depthwise",
    "determinant",
    "gather",
    "generate_kernel",
    "generate_stack",
    "generator_of",
    "has_kernel",
    "layer_normalization",
    "local_response_normalization",
    "matmul",
    "pad",
    "pooling",
    "reduction",
    "repeat",
    "roi_align",
    "scatter",
    "selection",
    "softmax",
    "top_k",
    "transpose",
    "winograd",
]


def generate_kernel(instruction: Instruction, target: Target) -> KernelSource:
    """Return the kernel of *instruction* for *target*; it sees shapes and kinds, not names.

    Its arguments are ``kernel_operands(instruction)``.

    Raises:
        UnsupportedError: There is no kernel for this instruction.
        CompileError: The generator failed; the cause is chained.
    """
    generator = generator_of(type(instruction))
    if generator is None:
        raise UnsupportedError(
            f"{instruction!r}: no kernel for {type(instruction).__name__}; lower it, or write a "
            "generator and register it with @glow_nb.kernels.registry.kernel_for"
        )
    subject = f"{instruction!r}: kernel generator {name_of(generator)!r}"
    with foreign(CompileError, subject):
        source = generator(instruction, target)
    if not isinstance(source, KernelSource):
        raise CompileError(f"{subject} returned {source!r:.80}, not a KernelSource")
    return source


def generator_of(instruction_class: type[Instruction]) -> KernelGenerator | None:
    """Return the function that writes the kernel of *instruction_class*; None if there is none.

    A scalar expression is kernel enough, whenever the instruction was defined.
    """
    written = KERNELS.get(instruction_class)
    return written or (elementwise_source if instruction_class.scalar else None)


def has_kernel(node_class: type[Node]) -> bool:
    """True if nodes of *node_class* become instructions that have kernels."""
    return node_class in GENERATORS or any(
        instruction_class.node_class is node_class and generator_of(instruction_class)
        for instruction_class in INSTRUCTIONS.values()
    )
