"""Data-dependent pads: of any sign, in every mode."""

from __future__ import annotations

from glow_nb.formats.onnx.importer.context import Context
from glow_nb.formats.onnx.importer.decided_operands import Element, counted_up, term_of
from glow_nb.hlir import ops
from glow_nb.hlir.graph import Value
from glow_nb.hlir.ops.formulas.terms import Term, where


def decided_pad(
    ctx: Context, x: Value, axis: int, ends: tuple[Element, Element], mode: str, value: float
) -> Value:
    """Return *x* with cells before and after it along *axis*, or fewer of its own cells.

    The cells are gathered: element ``i`` of the result is that of place ``i - begin``, which the
    mode says where it lies outside. What is cut is cut first.

    Args:
        ctx: The function under construction.
        x: The tensor.
        axis: The axis.
        ends: The number of cells before and after; below 0 for cells that are cropped.
        mode: As of the operator: ``"constant"``, ``"edge"``, ``"reflect"`` or ``"wrap"``.
        value: The value of cells outside in the mode ``"constant"``.
    """
    size, (begin, end) = term_of(ctx, x.type.shape[axis]), (term_of(ctx, one) for one in ends)
    total = size + begin + end
    count = ctx.decided.size_of(ctx, total.value)
    first, left = -_cut(begin), size + _cut(begin) + _cut(end)
    places = ctx.term(counted_up(ctx, count)) - begin - first
    if mode == "constant":
        pads = [0] * 2 * x.type.rank
        pads[x.type.rank + axis] = 1  # a cell of the value, which stands for all outside
        x = ctx.emit(ops.Pad(x, pads=tuple(pads), mode=mode, value=value))
        found = where((places >= 0) & (places < left), places + first, size)
    else:
        is_nothing = (left < 1) & (total > 0)
        ctx.decided.require(ctx, where(is_nothing, total, 0).value, 0, "cells_of_nothing")
        found = _inside(places, left, mode) + first
    return ctx.emit(ops.Gather(x, found.value, axis=axis))


def _cut(pad: Term) -> Term:
    """Return a *pad* below 0, which cuts cells; 0 for one that adds some."""
    return pad.joined(ops.Minimum, 0)


def _inside(places: Term, size: Term, mode: str) -> Term:
    """Return which element each of *places* shows, of an axis of *size*."""
    if mode == "edge":
        return places.joined(ops.Maximum, 0).joined(ops.Minimum, size - 1)
    if mode == "wrap":
        return _rest(places, size.joined(ops.Maximum, 1))
    there_and_back = (2 * (size - 1)).joined(ops.Maximum, 1)
    rest = _rest(places, there_and_back)
    return where(rest < size, rest, there_and_back - rest)


def _rest(number: Term, period: Term) -> Term:
    """Return what is left of *number* in whole periods, not below 0."""
    return (number % period + period) % period
