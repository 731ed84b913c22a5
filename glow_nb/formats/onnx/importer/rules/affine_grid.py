"""Grids of places that a matrix maps, which :mod:`.grid_sample` may sample at."""

from __future__ import annotations

from math import prod

import numpy as np

from glow_nb.base.types import Array
from glow_nb.formats.onnx.importer.context import Context
from glow_nb.formats.onnx.importer.node import OnnxNode
from glow_nb.formats.onnx.importer.registry import onnx_op
from glow_nb.formats.onnx.importer.rules.matrix import matrix_product
from glow_nb.hlir.graph import Value


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
    if rank not in (2, 3) or theta.type.shape != (*batch, rank, rank + 1):
        raise ctx.wrong(
            f"theta {theta} must be [N, 2, 3] and 'size' [N, C, H, W], or [N, 3, 4] and "
            f"[N, C, D, H, W]; 'size' is {list(sizes)}"
        )
    if min(spatial) < 0:
        raise ctx.wrong(f"'size' is {list(sizes)}; sizes must not be negative")
    ctx.spend((rank + 1) * prod(spatial) * theta.type.kind.size_bytes)
    axes = [_coordinates(size, node.flag("align_corners")) for size in spatial]
    places = [axis.reshape(-1) for axis in np.meshgrid(*axes, indexing="ij")]
    matrix = np.stack([*reversed(places), np.ones(prod(spatial))])
    mapped = ctx.emit(matrix_product(ctx, theta, ctx.rounded(matrix, theta.type.kind)))
    return ctx.reshape(ctx.transpose(mapped, (0, 2, 1)), (*batch, *spatial, rank))


def _coordinates(size: int, align_corners: bool) -> Array:
    """Return *size* coordinates, the ends at the centres of the outer places or at their edges."""
    steps = size - 1 if align_corners else size
    return (2 * np.arange(size) - (size - 1)) / max(1, steps)
