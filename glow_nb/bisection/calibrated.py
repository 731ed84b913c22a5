"""Inputs that a quantized network was not calibrated for: their numbers are cut off."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from typing_extensions import override

from glow_nb.base.schema import operands_of
from glow_nb.base.text import format_name
from glow_nb.base.types import Array
from glow_nb.hlir import ops
from glow_nb.hlir.graph import Constant, Function, Node, Value

MOST_OUTSIDE = 0.05
"""A larger share of numbers outside of the range is no choice of a calibration."""


@dataclass(frozen=True)
class OutsideRange:
    """An input, many numbers of which are outside of the range to which it is quantized.

    Attributes:
        name: The input.
        share: The share of its numbers that are outside, at most 1.
        low: The least number of the range.
        high: The greatest number of the range.
    """

    name: str
    share: float
    low: float
    high: float

    @override
    def __str__(self) -> str:
        return (
            f"{100 * self.share:.0f} % of the numbers of input {format_name(self.name)} are "
            f"outside of {self.low:.4g}..{self.high:.4g}, the range that it was calibrated for, "
            "and are cut off; give inputs like the samples of the calibration"
        )


def inputs_outside(function: Function, feeds: Mapping[str, Array]) -> tuple[OutsideRange, ...]:
    """Return the inputs of *function* of which *feeds* has many numbers outside of their range."""
    found: dict[str, OutsideRange] = {}
    for name, scale, low, high in _ranges(function):
        array = feeds[name].astype(np.float64)
        is_cut = (array < low - scale / 2) | (array > high + scale / 2)
        share = float(np.mean(is_cut)) if array.size else 0.0
        if share > MOST_OUTSIDE and (name not in found or share > found[name].share):
            found[name] = OutsideRange(name, share, low, high)
    return tuple(found.values())


def _ranges(function: Function) -> Iterator[tuple[str, float, float, float]]:
    """Yield each input that is quantized by one scale, its step, and its range."""
    for node in function.nodes:
        if not isinstance(node, ops.Quantize | ops.QuantizeLinear):
            continue
        source, numbers = _moved(node.input), _scale_and_offset(node)
        if source in function.inputs and numbers is not None:
            (scale, offset), (least, greatest) = numbers, node.kind.limits
            yield source.name, scale, (least - offset) * scale, (greatest - offset) * scale


def _scale_and_offset(node: ops.Quantize | ops.QuantizeLinear) -> tuple[float, float] | None:
    """Return the scale and the offset of all numbers; None if there are several, or computed."""
    if isinstance(node, ops.Quantize):
        return node.scale, node.offset
    scale, offset = node.scale, node.offset
    if not isinstance(scale, Constant) or not isinstance(offset, Constant):
        return None
    if scale.type.size != 1 or offset.type.size != 1:
        return None
    return float(scale.array.item()), float(offset.array.item())


def _moved(value: Value) -> Value:
    """Return what *value* is made of by moving elements alone."""
    while isinstance(value, Node) and value.type_transparent:
        operands = operands_of(value)
        if len(operands) != 1:
            break
        (value,) = operands
    return value
