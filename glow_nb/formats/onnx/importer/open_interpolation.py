"""Where each element of a resized axis comes from, if only the run knows how many there are.

The formulas are those of :mod:`.interpolation`, as nodes of the graph.
"""

from __future__ import annotations

from math import isnan

from glow_nb.base.size import surely
from glow_nb.base.types import ElementKind, TensorType
from glow_nb.formats.onnx.importer.context import Context
from glow_nb.formats.onnx.importer.interpolation import Axis, Sampling
from glow_nb.formats.onnx.importer.open_numbers import raise_open
from glow_nb.hlir import ops
from glow_nb.hlir.graph import Value
from glow_nb.hlir.ops.formulas.terms import Term

FLOAT64, FLOAT32, INT64 = ElementKind.FLOAT64, ElementKind.FLOAT32, ElementKind.INT64


class OpenAxis:
    """One axis to resize, of an open size, whose places are computed when the network runs."""

    def __init__(self, ctx: Context, axis: Axis, sampling: Sampling) -> None:
        """Raise OpenSizeError for what only known sizes have."""
        is_plain = not (sampling.antialias or sampling.exclude_outside)
        if sampling.mode == "cubic" or not is_plain or sampling.coordinates == "tf_crop_and_resize":
            raise_open(axis.size, axis.result_size)
        self.ctx, self.axis, self.sampling = ctx, axis, sampling
        self.size, self.result_size = self._number(axis.size), self._number(axis.result_size)
        self.scale = self.result_size / self.size
        if not isnan(axis.scale):
            self.scale = self.size.number(axis.scale)

    def _number(self, size: int) -> Term:
        """Return a *size* as a vector of one float64."""
        numbers = self.ctx.sized([size], TensorType(INT64, (1,)))
        return self.ctx.term(self.ctx.convert(self.ctx.as_computed(numbers), FLOAT64))

    def _steps(self) -> Term:
        """Return 0, 1, 2, ..., as many as the result has elements."""
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
        steps = self._chosen(length.equals(1.0), length, length - 1.0)
        return y * (self.size - 1.0) / steps

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

    def linear(self) -> list[tuple[Value, Value]]:
        """Return indices and float64 weights of the two elements that the result is the sum of."""
        x = self._coordinates()
        base = x.apply(ops.Ceil) - 1.0  # a whole number is the right end of the cell before it
        right = x - base
        pairs = ((base, 1.0 - right), (base + 1.0, right))
        return [(self._inside(places), weights.value) for places, weights in pairs]
