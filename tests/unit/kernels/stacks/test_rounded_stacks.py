"""Stacks in which numbers are rounded to integers and become real numbers again."""

from typing import Any

import numpy as np
import pytest

import glow_nb
from glow_nb.base.types import Array, ElementKind
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.evaluate import evaluate
from glow_nb.hlir.graph import Function, Value
from glow_nb.hlir.ops import ConvertTo, DequantizeLinear, Div, QuantizeLinear, Sub
from tests.in_turn import in_turn

FLOAT32 = ElementKind.FLOAT32
KINDS = [ElementKind(name) for name in ("int8", "uint8", "int16", "uint16", "int4", "uint4")]


def numbers() -> Array:
    edges = [np.nan, np.inf, -np.inf, -0.0, 0.0, -0.3, 0.3, -0.5, 1e9, -1e9]
    return np.concatenate([edges, np.arange(-401, 402) / 4]).astype(np.float32)


def network(kind: ElementKind, offset: int, what: Any) -> Function:
    """Return what *what* makes of numbers that are quantized to *kind*, and of the offset."""
    builder = Builder()
    x = builder.input("x", f"float32<{numbers().size}>")
    scale = builder.constant("scale", np.array([0.5], np.float32))
    place = builder.constant("offset", np.array([offset]).astype(kind.dtype))
    integers = builder.emit(QuantizeLinear(x, scale, place, kind=kind))
    builder.save(what(builder, integers, scale, place), "y")
    return builder.function()


def reciprocals(builder: Builder, integers: Value, scale: Value, offset: Value) -> Value:
    one = builder.constant("one", np.ones(1, np.float32))
    real = builder.emit(DequantizeLinear(integers, scale, offset))
    return builder.emit(Div(one, real))  # of 0.0 and of -0.0 it is not the same


def nothing(builder: Builder, integers: Value, scale: Value, offset: Value) -> Value:
    wide = builder.emit(ConvertTo(integers, FLOAT32))
    return builder.emit(Sub(wide, builder.emit(ConvertTo(integers, FLOAT32))))


def distances(builder: Builder, integers: Value, scale: Value, offset: Value) -> Value:
    other = builder.constant("other", np.array([3]).astype(integers.type.kind.dtype))
    return builder.emit(DequantizeLinear(integers, scale, other))


@pytest.mark.jit
@pytest.mark.parametrize(("what", "kind"), in_turn([reciprocals, nothing, distances], KINDS))
def test_integers_that_become_real_again_are_those_of_the_definition(
    what: Any, kind: ElementKind
) -> None:
    """The default run has each of the three with a kind of its own."""
    least, greatest = (int(limit) for limit in kind.limits)
    for offset in (0, least, greatest, 5):
        function = network(kind, offset, what)
        (found,) = glow_nb.compile(function).run({"x": numbers()}).values()
        with np.errstate(divide="ignore"):
            (wanted,) = evaluate(function, {"x": numbers()}).values()
        np.testing.assert_array_equal(found, wanted)
        np.testing.assert_array_equal(np.signbit(found), np.signbit(wanted))
