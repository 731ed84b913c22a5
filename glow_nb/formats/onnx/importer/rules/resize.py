"""Resizing by interpolation, as gathers and weighted sums along one axis after another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import reduce
from math import floor, isclose, isfinite, nan
from operator import add

import numpy as np

from glow_nb.base.size import hinted, symbols_of, whole_part
from glow_nb.base.types import Array, ElementKind, TensorType
from glow_nb.formats.onnx.importer.context import Context
from glow_nb.formats.onnx.importer.decided_operands import (
    computed_factors,
    may_decide,
    multiplied,
    sizes_from,
)
from glow_nb.formats.onnx.importer.interpolation import (
    Axis,
    Sampling,
    nearest_places,
    outside,
    tap_count,
    weighted_places,
)
from glow_nb.formats.onnx.importer.node import OnnxNode
from glow_nb.formats.onnx.importer.open_interpolation import OpenAxis
from glow_nb.formats.onnx.importer.open_numbers import OpenNumbers, raise_open
from glow_nb.formats.onnx.importer.ratio import Ratio, as_ratio
from glow_nb.formats.onnx.importer.registry import onnx_op
from glow_nb.hlir import ops
from glow_nb.hlir.graph import Value

FLOAT64 = ElementKind.FLOAT64

_OLD = Sampling("nearest", "asymmetric", "floor")
_OPSET_10 = replace(_OLD, rounding="floor_or_ceil")
_MODES = ("nearest", "linear", "cubic")
_COORDINATES = (
    "half_pixel",
    "half_pixel_symmetric",
    "pytorch_half_pixel",
    "align_corners",
    "asymmetric",
    "tf_half_pixel_for_nn",
    "tf_crop_and_resize",
)
_ROUNDINGS = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
_POLICIES = ("stretch", "not_larger", "not_smaller")
_MOST_TAPS = 1024
"""Elements along an axis that one of the result is made of; antialiasing needs as many as shrink
to one, and on either side."""
_LARGEST_DENOMINATOR = 64
"""Of scales that an open size is multiplied by: without rounding, for all sizes of images."""
_PYTORCH = "pytorch"
"""The producer's name in models that PyTorch wrote, by either of its exporters."""


@onnx_op("Upsample")
def upsample_by_attribute(ctx: Context, node: OnnxNode) -> Value:
    """Enlarge by factors given as an attribute, opsets 7 and 8."""
    return _resize_by_scales(ctx, node, node.numbers("scales"))


@onnx_op("Upsample", since=9)
@onnx_op("Resize", since=10)
def resize_by_scales(ctx: Context, node: OnnxNode) -> Value:
    """Resize by factors given as an operand.

    The nearest element is the one before an element's place, but that after it on an axis which
    ``Resize`` shrinks. ONNX does not say so; its tests and ONNX Runtime do. PyTorch means the one
    before.
    """
    old = _OPSET_10 if node.op == "Resize" and ctx.producer != _PYTORCH else _OLD
    scales = _numbers(ctx, node, 1, "'scales'")
    return _resize_by_scales(ctx, node, scales, old)


def _resize_by_scales(
    ctx: Context, node: OnnxNode, scales: Sequence[float | Ratio], old: Sampling = _OLD
) -> Value:
    x, mode = node.operand(0), node.text("mode")
    if len(scales) != x.type.rank:
        raise ctx.wrong(f"scales {list(scales)} must have one number for each axis of {x}")
    sampling = replace(old, mode=_one_of(ctx, "mode", mode, _MODES))
    axes = [
        _axis(ctx, n, *_scaled(ctx, n, scale))
        for n, scale in zip(x.type.shape, scales, strict=True)
    ]
    return _resized(ctx, x, dict(enumerate(axes)), sampling, 0.0)


@onnx_op("Resize", since=11)
def resize(ctx: Context, node: OnnxNode) -> Value:
    """Resize by factors or to sizes, on all axes or on given ones."""
    x, rank = node.operand(0), node.operand(0).type.rank
    sampling = Sampling(
        mode=_one_of(ctx, "mode", node.text("mode"), _MODES),
        coordinates=_one_of(
            ctx,
            "coordinate_transformation_mode",
            node.text("coordinate_transformation_mode"),
            _COORDINATES,
        ),
        rounding=_one_of(ctx, "nearest_mode", node.text("nearest_mode"), _ROUNDINGS),
        cubic_a=node.number("cubic_coeff_a"),
        exclude_outside=node.flag("exclude_outside"),
        antialias=node.flag("antialias", False),
    )
    chosen = ctx.axes(node.integers("axes"), rank) if node.has("axes") else tuple(range(rank))
    return _resized(ctx, x, _axes(ctx, node, chosen), sampling, node.number("extrapolation_value"))


def _axes(ctx: Context, node: OnnxNode, chosen: tuple[int, ...]) -> dict[int, Axis]:
    """Return sizes, scale and crop of each axis to resize."""
    shape = [node.operand(0).type.shape[axis] for axis in chosen]
    computed = _computed_axes(ctx, node, chosen)
    if computed is not None:
        return computed
    scales, rois = _numbers(ctx, node, 2, "'scales'"), _known(ctx, node, 1, "'roi'")
    sizes = _sizes(ctx, node)
    if (len(scales), len(sizes)) not in ((len(chosen), 0), (0, len(chosen))):
        raise ctx.wrong(
            f"it must have scales or sizes, one for each of axes {list(chosen)}; it has scales "
            f"{scales} and sizes {sizes}"
        )
    if sizes:
        ratios, sizes = _by_policy(ctx, node, shape, sizes)
    else:
        pairs = [_scaled(ctx, n, scale) for n, scale in zip(shape, scales, strict=True)]
        sizes, ratios = [n for n, _ in pairs], [scale for _, scale in pairs]
    count = len(chosen)
    if node.text("coordinate_transformation_mode") != "tf_crop_and_resize":
        rois = [0.0] * count + [1.0] * count
    if len(rois) != 2 * count:
        raise ctx.wrong(f"roi {rois} must have two numbers for each of axes {list(chosen)}")
    return {
        axis: _axis(ctx, shape[i], sizes[i], ratios[i], (rois[i], rois[count + i]))
        for i, axis in enumerate(chosen)
    }


def _computed_axes(ctx: Context, node: OnnxNode, chosen: tuple[int, ...]) -> dict[int, Axis] | None:
    """Return the same if a run computes scales; None if all are known now."""
    operand = node.optional(2)
    factors = None if operand is None else computed_factors(ctx, operand)
    if factors is None or node.text("coordinate_transformation_mode") == "tf_crop_and_resize":
        return None
    if len(factors) != len(chosen):
        raise ctx.wrong(f"it must have a scale for each of axes {list(chosen)}; it has {operand}")
    axes: dict[int, Axis] = {}
    for axis, factor in zip(chosen, factors, strict=True):
        size = node.operand(0).type.shape[axis]
        if isinstance(factor, Value):
            made = _axis(ctx, size, multiplied(ctx, size, factor), nan)
            axes[axis] = replace(made, computed=factor)
        else:
            axes[axis] = _axis(ctx, size, *_scaled(ctx, size, factor))
    return axes


def _by_policy(
    ctx: Context, node: OnnxNode, shape: list[int], sizes: list[int]
) -> tuple[list[float], list[int]]:
    """Return scales and sizes for wanted *sizes*, with one scale if the aspect is to be kept."""
    policy = node.text("keep_aspect_ratio_policy", "stretch")
    if any(n < 1 for n in shape):
        raise ctx.wrong(f"an axis to resize is empty: {shape}")
    ratios = [_ratio(size, n) for size, n in zip(sizes, shape, strict=True)]
    if _one_of(ctx, "keep_aspect_ratio_policy", policy, _POLICIES) == "stretch":
        return ratios, sizes
    if symbols_of(*sizes, *shape):
        raise_open(*sizes, *shape)
    scale = min(ratios) if policy == "not_larger" else max(ratios)
    return [scale] * len(shape), [floor(scale * n + 0.5) for n in shape]


def _ratio(result_size: int, size: int) -> float:
    """Return how many times as large an axis becomes; NaN if only the run knows."""
    if not symbols_of(result_size, size):
        return result_size / size
    times, rest = whole_part(result_size, size)
    return nan if symbols_of(times, rest) or rest else float(times)


def _sizes(ctx: Context, node: OnnxNode) -> list[int]:
    """Return the sizes that a model gives, which may be open."""
    operand = node.optional(3)
    if isinstance(operand, OpenNumbers) and operand.integers is not None:
        return list(operand.integers)
    if operand is not None and may_decide(ctx, operand):
        return list(sizes_from(ctx, operand, "'sizes'"))
    return [int(n) for n in _known(ctx, node, 3, "'sizes'")]


def _numbers(ctx: Context, node: OnnxNode, index: int, name: str) -> Sequence[float | Ratio]:
    """Return the numbers of an operand called *name*, those made of open sizes as ratios."""
    operand = node.optional(index)
    if isinstance(operand, OpenNumbers):
        return [
            n.numerator if n == Ratio(n.numerator) else n for n in map(as_ratio, operand.numbers)
        ]
    return _known(ctx, node, index, name)


def _known(ctx: Context, node: OnnxNode, index: int, name: str) -> list[float]:
    operand = node.optional(index)
    if operand is None:
        return []
    numbers = [float(n) for n in ctx.known(operand, name).reshape(-1)]
    if not all(map(isfinite, numbers)):
        raise ctx.wrong(f"{name} {numbers} must be finite")
    return numbers


def _scaled(ctx: Context, size: int, scale: float | Ratio) -> tuple[int, float]:
    """Return the size that *size* grows to, and the scale to find places with.

    The model holds the scale in float32. ONNX's shape inference multiplies in float32, too; PyTorch
    multiplied by the float64 that its user wrote, which is the shortest decimal.
    """
    if isinstance(scale, Ratio):
        return _scaled_by_sizes(size, scale)
    if not 0 < scale < float("inf"):
        raise ctx.wrong(f"scale {scale} must be a number above 0")
    if symbols_of(size):
        return _scaled_open(size, Fraction(str(np.float32(scale)))), scale
    if ctx.producer == _PYTORCH:
        scale = float(str(np.float32(scale)))
        return floor(size * scale), scale
    return floor(np.float32(min(size * scale, 2.0**60))), scale


def _scaled_by_sizes(size: int, scale: Ratio) -> tuple[int, float]:
    """Return the size that exporters meant by the quotient of a wanted size and *size*."""
    if size == scale.denominator:
        return scale.numerator, _ratio(scale.numerator, size)
    result_size = size * scale.numerator // scale.denominator
    if result_size * scale.denominator != size * scale.numerator:
        raise_open(scale.numerator, scale.denominator)
    return result_size, _ratio(result_size, size)


def _scaled_open(size: int, scale: Fraction) -> int:
    """Return what an open *size* grows to; without rounding if the scale is a short fraction."""
    if scale.denominator > _LARGEST_DENOMINATOR:
        raise_open(size)
    return size * scale.numerator // scale.denominator


def _one_of(ctx: Context, name: str, value: str, known: Sequence[str]) -> str:
    if value not in known:
        raise ctx.wrong(f"{name} is {value!r}, it must be one of {list(known)}")
    return value


def _axis(
    ctx: Context,
    size: int,
    result_size: int,
    scale: float,
    roi: tuple[float, float] = (0.0, 1.0),
) -> Axis:
    if result_size < 0 or (not size and result_size):
        raise ctx.wrong(f"an axis of size {size!s} cannot be resized to {result_size!s}")
    if not symbols_of(size, result_size):
        ctx.spend(8 * result_size)
    return Axis(size, result_size, scale, roi, as_pytorch=ctx.producer == _PYTORCH)


def _resized(
    ctx: Context, x: Value, axes: dict[int, Axis], sampling: Sampling, fill: float
) -> Value:
    if sampling.mode != "nearest" and x.type.kind is ElementKind.BOOL:
        raise ctx.unsupported(f"mode {sampling.mode} on bool")
    if sampling.mode != "nearest" and not x.type.kind.is_float:
        return _rounded(ctx, _resized(ctx, ctx.convert(x, FLOAT64), axes, sampling, fill), x.type)
    for place, axis in _in_order(axes, sampling):
        is_whole = isclose(axis.roi[0], 0) and isclose(axis.roi[1], 1)
        is_same = axis.result_size == axis.size and isclose(axis.scale, 1)
        if is_same and is_whole:
            continue
        if symbols_of(axis.size, axis.result_size):
            x = _resized_open(ctx, x, OpenAxis(ctx, axis, sampling), place, fill)
            continue
        if sampling.mode == "nearest":
            x = _gathered(ctx, x, nearest_places(axis, sampling), place)
        else:
            _check_taps(ctx, axis, sampling)
            x = _weighted(ctx, x, *weighted_places(axis, sampling), place)
        mask = outside(axis, sampling)
        if mask.any():
            is_outside = ctx.constant(_along(mask, place, x.type))
            x = ctx.emit(ops.Select(is_outside, ctx.number(x.type, fill), x))
    return x


def _check_taps(ctx: Context, axis: Axis, sampling: Sampling) -> None:
    taps = tap_count(axis, sampling)
    if taps > _MOST_TAPS:
        raise ctx.unsupported(f"{taps} elements for each of the result; {_MOST_TAPS} are possible")


def _resized_open(ctx: Context, x: Value, axis: OpenAxis, place: int, fill: float) -> Value:
    """Resize an axis whose size only the run knows."""
    shape = tuple(axis.axis.result_size if i == place else 1 for i in range(x.type.rank))
    if axis.sampling.mode == "nearest":
        result = ctx.emit(ops.Gather(x, axis.nearest(), axis=place))
    else:
        _check_taps(ctx, axis.reach, axis.sampling)
        parts = []
        for places, weights in axis.weighted():
            factors = ctx.reshape(ctx.convert(weights, x.type.kind), shape)
            part = ctx.emit(ops.Gather(x, places, axis=place))
            parts.append(ctx.term(ctx.emit(ops.Mul(part, factors))))
        result = reduce(add, parts).value
    outside = axis.outside()
    if outside is not None:
        is_outside = ctx.reshape(outside, shape)
        result = ctx.emit(ops.Select(is_outside, ctx.number(result.type, fill), result))
    return result


def _in_order(axes: dict[int, Axis], sampling: Sampling) -> list[tuple[int, Axis]]:
    """Return the axes in the order in which they are resized.

    The nearest elements are the same in any order. What shrinks comes first; of what grows, the
    last axis, in which elements are moved one by one: rows of the result are copies then.
    """
    if sampling.mode != "nearest":
        return list(axes.items())
    shrinking = [
        (place, axis) for place, axis in axes.items() if hinted(axis.result_size - axis.size) < 0
    ]
    growing = [pair for pair in axes.items() if pair not in shrinking]
    return shrinking + growing[::-1]


def _rounded(ctx: Context, x: Value, like: TensorType) -> Value:
    """Return *x* in integers of *like*'s kind, rounded half to even and saturated."""
    least, greatest = like.kind.limits
    nearest = ctx.emit(ops.Clip(ctx.emit(ops.Round(x)), float(least), float(greatest)))
    return ctx.convert(nearest, like.kind)


def _gathered(ctx: Context, x: Value, places: Array, axis: int) -> Value:
    return ctx.emit(ops.Gather(x, ctx.constant(places), axis=axis))


def _weighted(ctx: Context, x: Value, places: Array, weights: Array, axis: int) -> Value:
    """Return the sum over taps of gathered elements times their weights along *axis*."""
    total: Value | None = None
    for tap in range(places.shape[1]):
        if not weights[:, tap].any():
            continue
        column = weights[:, tap]
        part = _gathered(ctx, x, np.ascontiguousarray(places[:, tap]), axis)
        if not np.all(column == 1):
            factors = ctx.rounded(_along(column, axis, x.type), x.type.kind)
            part = ctx.emit(ops.Mul(part, factors))
        total = part if total is None else ctx.emit(ops.Add(total, part))
    return total if total is not None else _gathered(ctx, x, places[:, 0], axis)


def _along(vector: Array, axis: int, type: TensorType) -> Array:
    """Return *vector* shaped so that it broadcasts along *axis*."""
    return vector.reshape([-1 if i == axis else 1 for i in range(type.rank)])
