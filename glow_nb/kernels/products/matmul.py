"""Kernels of matrix products over packed matrices."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from glow_nb.kernels.operators.packed_instructions import PackedMatMulInst
from glow_nb.kernels.products.convolution_plan import ProductNest
from glow_nb.kernels.products.convolution_shape import ConvolutionShape
from glow_nb.kernels.products.product_loops import generate_product
from glow_nb.kernels.products.register_tiles import Epilogue
from glow_nb.kernels.registry import kernel_for
from glow_nb.kernels.target import Target
from glow_nb.kernels.writing.source import KernelSource
from glow_nb.llir.traits import KernelTraits
from glow_nb.types import ElementKind


@dataclass(frozen=True)
class MatMulShape:
    """``result[b, m, n] = bias[n] + sum over k of lhs[b, m, k] * rhs[b, k, n]``.

    Attributes:
        batch: Products; 1 if the rows of all of them share one right matrix.
        rows: Rows of each left matrix (m).
        inner: Length of the sums (k).
        depth: Columns of each right matrix (n).
        has_bias: True if there is a bias.
    """

    batch: int
    rows: int
    inner: int
    depth: int
    has_bias: bool = True


def generate_matmul(
    shape: MatMulShape,
    kind: ElementKind,
    block: int,
    target: Target,
    epilogue: Epilogue | None = None,
) -> KernelSource:
    """Return the kernel ``(dest, lhs, rhs[, bias], *epilogue operands)`` of a matrix product.

    Lhs ``[batch, rows, inner]``, rhs ``[batch, panels, inner, block]``, bias ``[panels * block]``,
    dest ``[batch, rows, depth]``, where ``panels = ceil(depth / block)``.

    Args:
        shape: Sizes of the product.
        kind: Element kind of all operands.
        block: Columns of one panel, a multiple of the lanes; see ``product_candidates``.
        target: The processor.
        epilogue: What to do with each vector of results before it is stored.

    Raises:
        UnsupportedError: There are no kernels for *kind*.
    """
    line = ConvolutionShape(
        batch=shape.batch,
        channels=shape.inner,
        depth=shape.depth,
        input=(shape.rows,),
        kernel=(1,),
        stride=(1,),
        pads=(0, 0),
        dilation=(1,),
    )
    nest = ProductNest(line, kind, block, shape.has_bias, filter_per_image=shape.batch > 1)
    sizes = f"{shape.batch} x {shape.rows} x {shape.inner}"
    return generate_product(
        nest,
        target,
        family="mat_mul",
        names=("lhs", "rhs", "bias"),
        title=f"product of {kind.value}<{sizes}> and {shape.depth} columns",
        epilogue=epilogue,
    )


@kernel_for(PackedMatMulInst, traits=KernelTraits(fuses_epilogue=True, stores_once=True))
def packed_mat_mul_source(
    instruction: PackedMatMulInst, target: Target, epilogue: Epilogue | None = None
) -> KernelSource:
    """Return the kernel of an instruction, with the *epilogue* of its stack."""
    *batch, rows, inner = instruction.lhs.type.shape
    is_batched = len(instruction.rhs.type.shape) > len(("panels", "inner", "block"))
    shape = MatMulShape(
        batch=prod(batch) if is_batched else 1,
        rows=rows if is_batched else prod(batch) * rows,
        inner=inner,
        depth=instruction.depth,
        has_bias=instruction.bias is not None,
    )
    return generate_matmul(shape, instruction.lhs.type.kind, instruction.block, target, epilogue)
