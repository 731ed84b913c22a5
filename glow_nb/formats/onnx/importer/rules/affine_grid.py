"""Grids of places that a matrix maps, which :mod:`.grid_sample` may sample at."""

from __future__ import annotations

from math import prod

import numpy as np

from glow_nb.base.size import same_shape, symbols_of
from glow_nb.base.types import ElementKind
from glow_nb.formats.onnx.importer.context import Context
from glow_nb.formats.onnx.importer.node import OnnxNode
from glow_nb.formats.onnx.importer.registry import onnx_op
from glow_nb.formats.onnx.importer.rules.matrix import matrix_product
from glow_nb.hlir import ops
from glow_nb.hlir.graph import Value
from glow_nb.hlir.ops.counting import counting
from glow_nb.hlir.ops.formulas.terms import Term
from glow_nb.hlir.ops.sizes import size_value


@onnx_op("AffineGrid", since=20)
def affine_grid(ctx: Context, node: OnnxNode) -> Value:
    """Map the places of a grid: ``result[n, *place, i] = sum of theta[n, i] * (x, y[, z], 1)``.

    Coordinates go from -1 to 1 along each axis, the last axis comes first. The function that ONNX
    has for this operator is not used: it fails for one image, and divides by zero where an axis has
    one place. That place has the coordinate 0 here, as it has in PyTorch.
    """
    theta, sizes = node.operand(0), ctx.known_integers(node.operand(1), "'size'")
    batch, spatial = sizes[:1], sizes[2:]
    rank = len(spatial)
    if rank not in (2, 3) or not same_shape(theta.type.shape, (*batch, rank, rank + 1)):
        raise ctx.wrong(
            f"theta {theta} must be [N, 2, 3] and 'size' [N, C, H, W], or [N, 3, 4] and "
            f"[N, C, D, H, W]; 'size' is {list(sizes)}"
        )
    if any(size < 0 for size in spatial):
        raise ctx.wrong(f"'size' is {list(sizes)}; sizes must not be negative")
    if not symbols_of(*spatial):
        ctx.spend((rank + 1) * prod(spatial) * theta.type.kind.size_bytes)
    is_inner = node.flag("align_corners")
    rows = [_coordinates(ctx, spatial, axis, is_inner) for axis in reversed(range(rank))]
    rows.append(ctx.broadcast(ctx.constant(np.ones((1, 1))), (1, prod(spatial))))
    matrix = ctx.convert(ctx.emit(ops.Concat(tuple(rows), axis=0)), theta.type.kind)
    mapped = ctx.emit(matrix_product(ctx, theta, matrix))
    return ctx.reshape(ctx.transpose(mapped, (0, 2, 1)), (*batch, *spatial, rank))


def _coordinates(ctx: Context, spatial: tuple[int, ...], axis: int, align_corners: bool) -> Value:
    """Return the coordinate of each place along *axis*, ``[1, places]``, in float64.

    The ends are at the centres of the outer places, or at their edges.
    """
    size = spatial[axis]
    numbers = ctx.convert(counting(ctx, size), ElementKind.FLOAT64)
    number = ctx.term(ctx.reshape(numbers, [size if i == axis else 1 for i in range(len(spatial))]))

    def term(size: int) -> Term:
        return ctx.term(size_value(ctx.builder, number.value.type, size, "size"))

    steps = term(size - 1 if align_corners else size).joined(ops.Maximum, 1.0)
    place = (number * 2 - term(size - 1)) / steps
    return ctx.reshape(ctx.broadcast(place.value, spatial), (1, prod(spatial)))
