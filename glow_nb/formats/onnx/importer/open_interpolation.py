"""Where each element of a resized axis comes from, if only the run knows how many there are.

The formulas are those of :mod:`.interpolation`, as nodes of the graph.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from math import isnan
from operator import add

from glow_nb.base.size import surely
from glow_nb.base.types import ElementKind, TensorType
from glow_nb.formats.onnx.importer.context import Context
from glow_nb.formats.onnx.importer.interpolation import Axis, Sampling, squeeze_of, taps_of
from glow_nb.formats.onnx.importer.open_numbers import raise_open
from glow_nb.hlir import ops
from glow_nb.hlir.graph import Value
from glow_nb.hlir.ops.formulas.terms import Term, where

FLOAT64, FLOAT32, INT64 = ElementKind.FLOAT64, ElementKind.FLOAT32, ElementKind.INT64


class OpenAxis:
    """One axis to resize, of an open size, whose places are computed when the network runs."""

    def __init__(self, ctx: Context, axis: Axis, sampling: Sampling) -> None:
        """Raise OpenSizeError if only the run knows how many elements one is made of."""
        grows = surely(axis.result_size, ">=", axis.size)
        if sampling.antialias and isnan(axis.scale) and not grows:
            raise_open(axis.size, axis.result_size)
        self.reach = replace(axis, scale=1.0) if grows or isnan(axis.scale) else axis
        self.ctx, self.axis, self.sampling = ctx, axis, sampling
        self.size, self.result_size = self._number(axis.size), self._number(axis.result_size)
        self.scale = self.result_size / self.size
        if axis.computed is not None:
            self.scale = ctx.term(axis.computed)
        elif not isnan(axis.scale):
            self.scale = self.size.number(axis.scale)

    def _number(self, size: int) -> Term:
        """Return a *size* as a vector of one float64."""
        numbers = self.ctx.sized([size], TensorType(INT64, (1,)))
        return self.ctx.term(self.ctx.convert(self.ctx.as_computed(numbers), FLOAT64))

    def _steps(self) -> Term:
        """Return 0, 1, 2, ..., one number for each element of the result."""
        one = self.ctx.number(TensorType(FLOAT64, (1,)), 1)
        ones = self.ctx.broadcast(one, (self.axis.result_size,))
        return self.ctx.term(self.ctx.emit(ops.CumSum(ones, axis=0, exclusive=True)))

    def _coordinates(self) -> Term:
        """Return the place in the input, as float64, of each element of the result."""
        y, mode = self._steps(), self.sampling.coordinates
        length = self.result_size if self.axis.as_pytorch else self.scale * self.size
        half_pixel = (y + 0.5) / self.scale - 0.5
        if mode == "half_pixel":
            return half_pixel
        if mode == "pytorch_half_pixel":
            return self._chosen(length > 1.0, half_pixel, y * 0.0)
        if mode == "asymmetric":
            return self._asymmetric(y)
        if mode == "tf_half_pixel_for_nn":
            return (y + 0.5) / self.scale
        if mode == "half_pixel_symmetric":
            return self.size / 2.0 * (1.0 - self.result_size / length) + half_pixel
        last, is_one = self.size - 1.0, length.equals(1.0)
        steps = self._chosen(is_one, length, length - 1.0)
        if mode == "align_corners":
            return y * last / steps
        start, end = self.axis.roi
        part = (end - start) * last
        return start * last + where(is_one, part / 2.0 + y * 0.0, y * part / steps)

    def _asymmetric(self, y: Term) -> Term:
        if not self.axis.as_pytorch:
            return y / self.scale
        narrow = (self.ctx.convert(each.value, FLOAT32) for each in (y, 1.0 / self.scale))
        steps, pace = map(self.ctx.term, narrow)
        return self.ctx.term(self.ctx.convert((steps * pace).value, FLOAT64))

    def _chosen(self, condition: Term, left: Term, right: Term) -> Term:
        return self.ctx.term(self.ctx.emit(ops.Select(condition.value, left.value, right.value)))

    def _inside(self, places: Term) -> Value:
        """Return *places* as indices of the input, those outside as the nearest ones."""
        low = places.joined(ops.Maximum, 0.0)
        return self.ctx.convert(low.joined(ops.Minimum, self.size - 1.0).value, INT64)

    def nearest(self) -> Value:
        """Return the index of the input's element for each element of the result."""
        x, rounding = self._coordinates(), self.sampling.rounding
        if rounding == "round_prefer_floor":
            return self._inside((x - 0.5).apply(ops.Ceil))
        if rounding == "round_prefer_ceil":
            return self._inside((x + 0.5).apply(ops.Floor))
        if rounding == "floor_or_ceil":
            shrinks = surely(self.axis.result_size, "<", self.axis.size)
            if not shrinks and not surely(self.axis.result_size, ">=", self.axis.size):
                raise_open(self.axis.size, self.axis.result_size)
            rounding = "ceil" if shrinks else "floor"
        return self._inside(x.apply(ops.Ceil if rounding == "ceil" else ops.Floor))

    def weighted(self) -> list[tuple[Value, Value]]:
        """Return indices and float64 weights of the elements that the result is the sum of."""
        x = self._coordinates()
        base = x.apply(ops.Ceil) - 1.0  # a whole number is the right end of the cell before it
        squeeze = squeeze_of(self.reach, self.sampling)
        places = [base + float(tap) for tap in taps_of(self.reach, self.sampling)]
        weights = [self._weight((place - x).apply(ops.Abs) * squeeze) for place in places]
        if self.sampling.antialias:
            total = reduce(add, weights)
            weights = [weight / total for weight in weights]
        if self.sampling.exclude_outside:
            weights = [
                where(self._is_outside(p), 0.0, w) for p, w in zip(places, weights, strict=True)
            ]
            total = reduce(add, weights)
            divisor = where(total.equals(0.0), 1.0, total)
            weights = [weight / divisor for weight in weights]
        return [(self._inside(p), w.value) for p, w in zip(places, weights, strict=True)]

    def _weight(self, distance: Term) -> Term:
        """Return the weight of elements at a *distance* of 0 or more."""
        d, a = distance, self.sampling.cubic_a
        if self.sampling.mode == "linear":
            return (1.0 - d).joined(ops.Maximum, 0.0)
        near = ((a + 2) * d - (a + 3)) * d * d + 1.0
        far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
        return where(d <= 1.0, near, where(d < 2.0, far, 0.0))

    def _is_outside(self, places: Term) -> Term:
        return (places < 0.0).joined(ops.Or, places > self.size - 1.0)

    def outside(self) -> Value | None:
        """Return which elements of the result lie outside the input, if some may (cropping)."""
        is_cropped = self.sampling.coordinates == "tf_crop_and_resize"
        return self._is_outside(self._coordinates()).value if is_cropped else None
