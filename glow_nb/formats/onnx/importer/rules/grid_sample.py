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
from glow_nb.hlir.terms import Term, where

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
    weight: Term | None


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


def _coordinate(ctx: Context, grid: Value, axis: int) -> Term:
    """Return the coordinate along spatial *axis* as ``[N, *out]``: the grid has the last first."""
    shape = grid.type.shape
    column = ctx.part(grid, len(shape) - 1, shape[-1] - 1 - axis, 1)
    return ctx.term(ctx.reshape(column, shape[:-1]))


def _gathered(ctx: Context, x: Value, taps: tuple[Tap, ...]) -> Value:
    """Return the elements at one combination of taps, times their weights: ``[N, *out, C]``."""
    shape = taps[0].index.type.shape
    columns = tuple(ctx.reshape(tap.index, (*shape, 1)) for tap in taps)
    indices = columns[0] if len(columns) == 1 else ctx.emit(ops.Concat(columns, axis=len(shape)))
    value = ctx.term(ctx.emit(ops.GatherND(x, indices, batch_dims=1)))
    for tap in taps:
        if tap.weight is not None:
            weight = ctx.reshape(tap.weight.value, (*shape, 1))
            value = value * ctx.term(ctx.convert(weight, x.type.kind))
    return value.value


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

    def taps(self, coordinate: Term, size: int) -> list[Tap]:
        """Return the elements that count at a *coordinate* from -1 to 1 along an axis of *size*.

        The ends lie at the centres of the outer elements, or at their edges.
        """
        unit = coordinate + 1
        place = unit * ((size - 1) / 2) if self.align_corners else (unit * size - 1) * 0.5
        return self.taps_at(place, size)

    def taps_at(self, place: Term, size: int) -> list[Tap]:
        """Return the elements that count at a *place*, in elements, along an axis of *size*.

        A place beyond the border is moved inside before its neighbours are taken, but for the cubic
        kernel with padding "border", as in ONNX Runtime and PyTorch: there the neighbours alone
        are moved. (``onnx.reference`` moves such a place, too, once it is half an element out.)
        """
        if self.mode == "nearest":
            return [self._tap(self._inside(place.apply(ops.Round), size), None, size)]
        if not (self.mode == "cubic" and self.padding == "border"):
            place = self._inside(place, size)
        first = place.apply(ops.Floor)
        fraction = place - first
        if self.mode == "linear":
            return [
                self._tap(first, 1 - fraction, size),
                self._tap(first + 1, fraction, size),
            ]
        weights = enumerate(_cubic(fraction), -1)
        return [self._tap(first + step, weight, size) for step, weight in weights]

    def _inside(self, place: Term, size: int) -> Term:
        """Return places outside the input moved inside, if the padding says so."""
        if self.padding == "border":
            return self._clipped(place, size)
        return self._reflected(place, size) if self.padding == "reflection" else place

    def _clipped(self, place: Term, size: int) -> Term:
        clip = ops.Clip(place.value, minimum=0.0, maximum=float(size - 1))
        return self.ctx.term(self.ctx.emit(clip))

    def _reflected(self, place: Term, size: int) -> Term:
        low, high = (0.0, size - 1.0) if self.align_corners else (-0.5, size - 0.5)
        if low == high:
            return place * 0
        span = high - low
        distance = (place - low).apply(ops.Abs)
        turns = (distance * (1 / span)).apply(ops.Floor)
        rest, half = distance - turns * span, turns * 0.5
        return where(half.apply(ops.Floor).equals(half), rest + low, high - rest)

    def _tap(self, place: Term, weight: Term | None, size: int) -> Tap:
        """Return the tap at a whole *place*: nothing outside for zeros, else moved inside."""
        if self.padding == "zeros":
            share = place.number(1) if weight is None else weight
            weight = where((place >= 0) & (place <= size - 1), share, 0)
        else:
            place = self._inside(place, size)
        return Tap(self.ctx.convert(self._clipped(place, size).value, ElementKind.INT64), weight)


def _cubic(t: Term) -> list[Term]:
    """Return the four weights of Keys's kernel at ``t + 1, t, 1 - t, 2 - t``."""
    rest = 1 - t
    return [_far(t + 1), _near(t), _near(rest), _far(rest + 1)]


def _near(d: Term) -> Term:
    return (d * (_CUBIC_A + 2) - (_CUBIC_A + 3)) * d * d + 1


def _far(d: Term) -> Term:
    return ((d * _CUBIC_A - 5 * _CUBIC_A) * d + 8 * _CUBIC_A) * d - 4 * _CUBIC_A
