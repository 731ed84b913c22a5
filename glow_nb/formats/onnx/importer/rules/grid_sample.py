"""Sampling at places that a tensor names."""

from __future__ import annotations

from glow_nb.base.types import ElementKind
from glow_nb.formats.onnx.importer.context import Context
from glow_nb.formats.onnx.importer.node import OnnxNode
from glow_nb.formats.onnx.importer.registry import onnx_op
from glow_nb.hlir import ops
from glow_nb.hlir.graph import Value
from glow_nb.hlir.ops.formulas.sampling import BORDER, CENTERS, EDGES, REFLECTION, TAPS, ZEROS
from glow_nb.hlir.ops.grid_sample import MOST_TAPS

_MODES = {"bilinear": "linear", "bicubic": "cubic"}


@onnx_op("GridSample", since=16)
def grid_sample(ctx: Context, node: OnnxNode) -> Value:
    """Sample ``[N, C, *in]`` at ``grid [N, *out, rank]``, coordinates from -1 to 1, last first."""
    x, grid = node.operand(0), node.operand(1)
    rank = x.type.rank - 2
    if not 1 <= rank == grid.type.rank - 2 == grid.type.shape[-1]:
        raise ctx.wrong(f"grid {grid} must be [N, out..., {rank}] for input {x}")
    mode, padding = node.text("mode"), node.text("padding_mode")
    mode = _MODES.get(mode, mode)
    if mode not in TAPS or padding not in (ZEROS, BORDER, REFLECTION):
        raise ctx.wrong(
            f"mode is {mode!r} and padding_mode {padding!r}; there are {tuple(TAPS)} and "
            f"{(ZEROS, BORDER, REFLECTION)}"
        )
    shape = (*x.type.shape[:2], *grid.type.shape[1:-1])
    if 0 in shape:
        return ctx.filled(x.type, 0, shape)
    if 0 in x.type.shape:
        raise ctx.wrong(f"input {x} is empty: the places of grid {grid} have nothing to sample")
    require_few_taps(ctx, TAPS[mode] ** rank)
    sampled = ops.GridSample(
        ctx.channels_last(_as_floats(ctx, x)),
        grid,
        mode=mode,
        padding=padding,
        coordinates=CENTERS if node.flag("align_corners") else EDGES,
    )
    return ctx.convert(ctx.channels_first(ctx.emit(sampled)), x.type.kind)


def require_few_taps(ctx: Context, taps: int) -> None:
    """Raise UnsupportedError for too many elements for each of the result."""
    if taps > MOST_TAPS:
        raise ctx.unsupported(f"{taps} elements for each of the result; {MOST_TAPS} are possible")


def _as_floats(ctx: Context, x: Value) -> Value:
    """Return *x* as numbers that can be weighted."""
    return x if x.type.kind.is_float else ctx.convert(x, ElementKind.FLOAT64)
