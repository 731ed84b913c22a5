"""Sampling at places that a tensor names: gathers of the elements around each, weighted."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from glow_nb.base.types import ElementKind
from glow_nb.formats.onnx.importer.context import Context
from glow_nb.formats.onnx.importer.node import OnnxNode
from glow_nb.formats.onnx.importer.registry import onnx_op
from glow_nb.hlir import ops
from glow_nb.hlir.graph import Value
from glow_nb.hlir.ops.families import BinaryElementwise

_MODES = {"bilinear": "linear", "bicubic": "cubic"}
_CUBIC_A = -0.75
_MOST_TAPS = 256
"""Elements that one of the result is made of: 4 in each of four axes, or 2 in each of eight."""


@dataclass(frozen=True)
class Tap:
    """One element along one axis, for every place of the result.

    Attributes:
        index: Its int64 index, inside the axis.
        weight: Its share; None for all of it.
    """

    index: Value
    weight: Value | None


@onnx_op("GridSample", since=16)
def grid_sample(ctx: Context, node: OnnxNode) -> Value:
    """Sample ``[N, C, *in]`` at ``grid [N, *out, rank]``, coordinates from -1 to 1, last first."""
    x, grid = node.operand(0), node.operand(1)
    rank = x.type.rank - 2
    if not 1 <= rank == grid.type.rank - 2 == grid.type.shape[-1]:
        raise ctx.wrong(f"grid {grid} must be [N, out..., {rank}] for input {x}")
    shape = (*x.type.shape[:2], *grid.type.shape[1:-1])
    if not prod(shape):
        return ctx.filled(x.type, 0, shape)
    if 0 in x.type.shape:
        raise ctx.wrong(f"input {x} is empty: the places of grid {grid} have nothing to sample")
    mode = node.text("mode")
    sampler = Sampler(
        ctx,
        mode=_MODES.get(mode, mode),
        padding=node.text("padding_mode"),
        align_corners=node.flag("align_corners"),
    )
    sampler.check()
    last = ctx.channels_last(x)
    axes = [sampler.taps(_coordinate(ctx, grid, i), n) for i, n in enumerate(x.type.shape[2:])]
    return ctx.channels_first(sampled(ctx, last, axes))


def sampled(ctx: Context, x: Value, axes: Sequence[Sequence[Tap]]) -> Value:
    """Return what *x* ``[N, *in, C]`` has at the taps of all *axes*, ``[N, *out, C]``."""
    taps = prod(map(len, axes))
    if taps > _MOST_TAPS:
        raise ctx.unsupported(f"{taps} elements for each of the result; {_MOST_TAPS} are possible")
    parts = [_gathered(ctx, x, combination) for combination in itertools.product(*axes)]
    total = parts[0]
    for part in parts[1:]:
        total = ctx.emit(ops.Add(total, part))
    return total


def _coordinate(ctx: Context, grid: Value, axis: int) -> Value:
    """Return the coordinate along spatial *axis* as ``[N, *out]``: the grid has the last first."""
    shape = grid.type.shape
    column = ctx.part(grid, len(shape) - 1, shape[-1] - 1 - axis, 1)
    return ctx.reshape(column, shape[:-1])


def _gathered(ctx: Context, x: Value, taps: tuple[Tap, ...]) -> Value:
    """Return the elements at one combination of taps, times their weights: ``[N, *out, C]``."""
    shape = taps[0].index.type.shape
    columns = tuple(ctx.reshape(tap.index, (*shape, 1)) for tap in taps)
    indices = columns[0] if len(columns) == 1 else ctx.emit(ops.Concat(columns, axis=len(shape)))
    value = ctx.emit(ops.GatherND(x, indices, batch_dims=1))
    for tap in taps:
        if tap.weight is not None:
            weight = ctx.convert(ctx.reshape(tap.weight, (*shape, 1)), x.type.kind)
            value = ctx.emit(ops.Mul(value, weight))
    return value


@dataclass(frozen=True)
class Sampler:
    """How places map to elements; all values are ``[N, *out]`` in the grid's kind."""

    ctx: Context
    mode: str
    padding: str
    align_corners: bool

    def check(self) -> None:
        """Raise ModelError for a mode that does not exist."""
        modes, paddings = ("nearest", "linear", "cubic"), ("zeros", "border", "reflection")
        if self.mode not in modes or self.padding not in paddings:
            raise self.ctx.wrong(
                f"mode is {self.mode!r} and padding_mode {self.padding!r}; there are {modes} "
                f"and {paddings}"
            )

    def taps(self, coordinate: Value, size: int) -> list[Tap]:
        """Return the elements that count at a *coordinate* from -1 to 1 along an axis of *size*."""
        return self.taps_at(self._place(coordinate, size), size)

    def taps_at(self, place: Value, size: int) -> list[Tap]:
        """Return the elements that count at a *place*, in elements, along an axis of *size*.

        A place beyond the border is moved inside before its neighbours are taken, but for the cubic
        kernel with padding "border", as in ONNX Runtime and PyTorch: there the neighbours alone
        are moved. (``onnx.reference`` moves such a place, too, once it is half an element out.)
        """
        if self.mode == "nearest":
            rounded = self._inside(self.ctx.emit(ops.Round(place)), size)
            return [self._tap(rounded, None, size)]
        if not (self.mode == "cubic" and self.padding == "border"):
            place = self._inside(place, size)
        first = self.ctx.emit(ops.Floor(place))
        fraction = self._op(ops.Sub, place, first)
        weights = self._linear(fraction) if self.mode == "linear" else self._cubic(fraction)
        start = 0 if self.mode == "linear" else -1
        return [
            self._tap(self._shift(first, start + i), weight, size)
            for i, weight in enumerate(weights)
        ]

    def _place(self, coordinate: Value, size: int) -> Value:
        """Return where -1 to 1 lies: from centre to centre, or from edge to edge."""
        unit = self._shift(coordinate, 1)
        if self.align_corners:
            return self._scale(unit, (size - 1) / 2)
        return self._scale(self._shift(self._scale(unit, size), -1), 0.5)

    def _inside(self, place: Value, size: int) -> Value:
        """Return places outside the input moved inside, if the padding says so."""
        if self.padding == "border":
            return self.ctx.emit(ops.Clip(place, minimum=0.0, maximum=float(size - 1)))
        return self._reflected(place, size) if self.padding == "reflection" else place

    def _reflected(self, place: Value, size: int) -> Value:
        low, high = (0.0, size - 1.0) if self.align_corners else (-0.5, size - 0.5)
        if low == high:
            return self._scale(place, 0)
        span = high - low
        distance = self.ctx.emit(ops.Abs(self._shift(place, -low)))
        turns = self.ctx.emit(ops.Floor(self._scale(distance, 1 / span)))
        rest = self._op(ops.Sub, distance, self._scale(turns, span))
        half = self._scale(turns, 0.5)
        is_even = self._op(ops.Equal, self.ctx.emit(ops.Floor(half)), half)
        back = self._shift(self.ctx.emit(ops.Neg(rest)), high)
        return self.ctx.emit(ops.Select(is_even, self._shift(rest, low), back))

    def _tap(self, place: Value, weight: Value | None, size: int) -> Tap:
        """Return the tap at a whole *place*: nothing outside for zeros, else moved inside."""
        ctx = self.ctx
        if self.padding == "zeros":
            inside = self._op(
                ops.And,
                self._op(ops.GreaterEqual, place, ctx.number(place.type, 0)),
                self._op(ops.LessEqual, place, ctx.number(place.type, size - 1)),
            )
            share = weight if weight is not None else ctx.number(place.type, 1)
            weight = ctx.emit(ops.Select(inside, share, ctx.number(place.type, 0)))
        else:
            place = self._inside(place, size)
        clipped = ctx.emit(ops.Clip(place, minimum=0.0, maximum=float(size - 1)))
        return Tap(ctx.convert(clipped, ElementKind.INT64), weight)

    def _linear(self, t: Value) -> list[Value]:
        return [self._shift(self.ctx.emit(ops.Neg(t)), 1), t]

    def _cubic(self, t: Value) -> list[Value]:
        """Return the four weights of Keys's kernel at ``t + 1, t, 1 - t, 2 - t``."""
        rest = self._shift(self.ctx.emit(ops.Neg(t)), 1)
        far = [self._far(self._shift(t, 1)), self._far(self._shift(rest, 1))]
        return [far[0], self._near(t), self._near(rest), far[1]]

    def _near(self, d: Value) -> Value:
        inner = self._shift(self._scale(d, _CUBIC_A + 2), -(_CUBIC_A + 3))
        return self._shift(self._op(ops.Mul, self._op(ops.Mul, inner, d), d), 1)

    def _far(self, d: Value) -> Value:
        inner = self._shift(self._scale(d, _CUBIC_A), -5 * _CUBIC_A)
        inner = self._shift(self._op(ops.Mul, inner, d), 8 * _CUBIC_A)
        return self._shift(self._op(ops.Mul, inner, d), -4 * _CUBIC_A)

    def _op(self, node_class: type[BinaryElementwise], lhs: Value, rhs: Value) -> Value:
        return self.ctx.emit(node_class(lhs, rhs))

    def _shift(self, x: Value, amount: float) -> Value:
        return self._op(ops.Add, x, self.ctx.number(x.type, amount)) if amount else x

    def _scale(self, x: Value, factor: float) -> Value:
        return self._op(ops.Mul, x, self.ctx.number(x.type, factor))
