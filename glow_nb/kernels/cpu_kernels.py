"""The kernel of any instruction: importing this module completes the table of the cpu's kernels."""

from __future__ import annotations

from glow_nb.base.errors import CompileError, UnsupportedError
from glow_nb.base.foreign import foreign, name_of
from glow_nb.fuse.check_traits import check_traits
from glow_nb.kernels.attention import attention
from glow_nb.kernels.fourier import transform as fast_fourier
from glow_nb.kernels.movement import gather, pad, repeat, scatter, sizes
from glow_nb.kernels.open_sizes import open_kernel
from glow_nb.kernels.products import (
    channel_wise,
    convolution,
    depthwise,
    depthwise_filter_gradient,
    dequantizing_matmul,
    filter_gradient,
    matmul,
    paired_convolution,
    unpacked_matmul,
)
from glow_nb.kernels.random import random_bits
from glow_nb.kernels.recurrence import backward as recurrence_gradient
from glow_nb.kernels.recurrence import forward as recurrence
from glow_nb.kernels.reductions import (
    arg_reduction,
    cumulative_sum,
    determinant,
    local_response_normalization,
    normalization,
    profile,
    reduction,
    softmax,
)
from glow_nb.kernels.registry import CPU_KERNELS, planned
from glow_nb.kernels.selection import non_max_suppression, selection, top_k
from glow_nb.kernels.stacks import generate_stack
from glow_nb.kernels.strassen import matmul as strassen
from glow_nb.kernels.target import Target
from glow_nb.kernels.transposes import transpose
from glow_nb.kernels.windows import (
    columns_to_image,
    grid_sample,
    max_pool_gradient,
    pooling,
    roi_align,
)
from glow_nb.kernels.winograd import convolution as winograd
from glow_nb.kernels.winograd import filter as winograd_filter
from glow_nb.kernels.writing.source import KernelSource
from glow_nb.llir.kernel_table import Maker
from glow_nb.llir.program import Instruction
from glow_nb.llir.stack import StackInst
from glow_nb.llir.with_sizes import symbols_of_instruction

__all__ = [
    "CPU_KERNELS",
    "arg_reduction",
    "attention",
    "channel_wise",
    "columns_to_image",
    "convolution",
    "cumulative_sum",
    "depthwise",
    "depthwise_filter_gradient",
    "dequantizing_matmul",
    "determinant",
    "fast_fourier",
    "filter_gradient",
    "gather",
    "generate_kernel",
    "generate_stack",
    "grid_sample",
    "local_response_normalization",
    "matmul",
    "max_pool_gradient",
    "non_max_suppression",
    "normalization",
    "pad",
    "paired_convolution",
    "planned",
    "pooling",
    "profile",
    "random_bits",
    "recurrence",
    "recurrence_gradient",
    "reduction",
    "repeat",
    "roi_align",
    "scatter",
    "selection",
    "sizes",
    "softmax",
    "strassen",
    "top_k",
    "transpose",
    "unpacked_matmul",
    "winograd",
    "winograd_filter",
]


def generate_kernel(instruction: Instruction, target: Target) -> KernelSource:
    """Return the kernel of *instruction* for *target*; it sees shapes and kinds, not names.

    Its arguments are ``kernel_operands(instruction)``, and its sizes if they are known only when
    it runs (:mod:`glow_nb.kernels.open_sizes`).

    Raises:
        UnsupportedError: There is no kernel for this instruction, or it cannot do what is asked.
        CompileError: The generator failed; the cause is chained.
    """
    generator = CPU_KERNELS.maker_of(type(instruction))
    if generator is None:
        raise UnsupportedError(
            f"{instruction!r}: no kernel for {type(instruction).__name__}; lower it, or write a "
            "generator and register it with @glow_nb.extend.kernel_for"
        )
    check_traits(instruction, CPU_KERNELS.traits)
    if symbols_of_instruction(instruction):
        return open_kernel(instruction, lambda one: _written(one, generator, target))
    return _written(instruction, generator, target)


def _written(instruction: Instruction, generator: Maker, target: Target) -> KernelSource:
    subject = f"{instruction!r}: kernel generator {name_of(generator)!r}"
    with foreign(CompileError, subject):
        source = generator(instruction, target)
    if not isinstance(source, KernelSource):
        raise CompileError(f"{subject} returned {source!r:.80}, not a KernelSource")
    return source


def is_loop(instruction: Instruction) -> bool:
    """Return whether the kernel of *instruction* is a plain loop over memory, without scratch."""
    if isinstance(instruction, StackInst):
        return instruction.head is None
    return CPU_KERNELS.maker_of(type(instruction)) is CPU_KERNELS.scalar
