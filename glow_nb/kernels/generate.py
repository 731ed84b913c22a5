"""The kernel of any instruction: importing this module registers all generators."""

from __future__ import annotations

from glow_nb.errors import UnsupportedError
from glow_nb.kernels import (
    arg_reduction,
    convolution,
    depthwise,
    elementwise,
    gather,
    layer_normalization,
    matmul,
    normalization,
    pad,
    pooling,
    reduction,
    scan,
    selection,
    softmax,
    stacks,
    tile,
    top_k,
    transpose,
    winograd,
)
from glow_nb.kernels.registry import KERNELS
from glow_nb.kernels.source import KernelSource
from glow_nb.kernels.target import Target
from glow_nb.llir.program import Instruction

__all__ = [
    "arg_reduction",
    "convolution",
    "depthwise",
    "elementwise",
    "gather",
    "generate_kernel",
    "layer_normalization",
    "matmul",
    "normalization",
    "pad",
    "pooling",
    "reduction",
    "scan",
    "selection",
    "softmax",
    "stacks",
    "tile",
    "top_k",
    "transpose",
    "winograd",
]


def generate_kernel(instruction: Instruction, target: Target) -> KernelSource:
    """Return the kernel of *instruction* for *target*; it sees shapes and kinds, not names.

    Its arguments are ``kernel_operands(instruction)``.

    Raises:
        UnsupportedError: There is no kernel for this instruction.
    """
    generator = KERNELS.get(type(instruction))
    if generator is None:
        raise UnsupportedError(
            f"{instruction!r}: no kernel for {type(instruction).__name__}; lower it, or add a "
            "generator with @kernel_for to glow_nb.kernels"
        )
    return generator(instruction, target)
