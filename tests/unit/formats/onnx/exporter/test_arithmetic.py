"""Arithmetic of integers where ONNX says nothing: what guards it, and what only looks so."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pytest

import glow_nb
from glow_nb.formats.onnx.importer import import_onnx
from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.evaluate import evaluate
from tests.unit.formats.onnx.exporter.exported import of
from tests.unit.formats.onnx.exporter.test_export_onnx import operators, run

Kind = Literal["int32", "int64", "uint8"]


@pytest.mark.parametrize("kind", ["int32", "int64", "uint8"])
@pytest.mark.parametrize("op", [ops.Div, ops.Modulo])
def test_integers_are_divided_by_anything(op: Any, kind: Kind) -> None:
    function = of(op, f"{kind}<6>", f"{kind}<6>")
    limits = np.iinfo(kind)
    x = np.array([7, limits.min, limits.max, 5, 0, 9], kind)
    y = np.array([0, limits.max if kind == "uint8" else -1, 2, 3, 0, 1]).astype(kind)
    feeds = {"x": x, "x_1": y}
    model = glow_nb.export_onnx(function)
    again = import_onnx(model)
    assert len(glow_nb.export_onnx(again).graph.node) == len(model.graph.node)  # guarded once
    np.testing.assert_array_equal(evaluate(again, feeds)["y0"], evaluate(function, feeds)["y0"])
    if kind != "uint8":
        np.testing.assert_array_equal(run(model, **feeds)["y0"], evaluate(function, feeds)["y0"])


@pytest.mark.parametrize(("instead", "tested"), [(3, "other"), (0, "divisor")])
def test_a_choice_that_looks_like_a_guard_guards_nothing(instead: int, tested: str) -> None:
    b = Builder()
    names = ("x", "divisor", "other")
    x, divisor, other = (b.input(name, "int32<4>") for name in names)
    constants = (b.constant("c", np.full(4, number, np.int32)) for number in (0, -1, instead))
    zero, minus_one, chosen = constants
    value = {"other": other, "divisor": divisor}[tested]
    is_bad = b.emit(ops.Or(b.emit(ops.Equal(value, zero)), b.emit(ops.Equal(value, minus_one))))
    b.save(b.emit(ops.Div(x, b.emit(ops.Select(is_bad, chosen, divisor)))), "y")
    function = b.function()
    numbers = ([7, np.iinfo(np.int32).min, 5, 4], [0, -1, 2, 0], [1, 1, 0, 1])
    feeds = {n: np.array(row, np.int32) for n, row in zip(names, numbers, strict=True)}
    found = run(glow_nb.export_onnx(function), **feeds)["y"]
    np.testing.assert_array_equal(found, evaluate(function, feeds)["y"])


def test_a_bound_beyond_the_bits_bounds_no_shift() -> None:
    b = Builder()
    x, count = b.input("x", "uint32<3>"), b.input("count", "uint32<3>")
    most = b.constant("most", np.full(3, 40, np.uint32))
    bounded = b.emit(ops.Minimum(count, most))
    b.save(b.emit(ops.BitShift(x, bounded, direction="left")), "y")
    feeds = {"x": np.array([5, 6, 7], np.uint32), "count": np.array([33, 1, 99], np.uint32)}
    model = glow_nb.export_onnx(b.function())
    assert "Where" in operators(model)  # ONNX says nothing about shifts by more bits than there are
    np.testing.assert_array_equal(run(model, **feeds)["y"], evaluate(b.function(), feeds)["y"])


def test_a_bound_below_zero_bounds_no_exponent() -> None:
    b = Builder()
    x, exponent = b.input("x", "int32<3>"), b.input("exponent", "int32<3>")
    least = b.constant("least", np.full(3, -3, np.int32))
    b.save(b.emit(ops.Pow(x, b.emit(ops.Maximum(exponent, least)))), "y")
    model = glow_nb.export_onnx(b.function())
    assert "Where" in operators(model)  # ONNX says nothing about negative powers of integers
    feeds = {"x": np.array([2, -1, 3], np.int32), "exponent": np.array([-1, -3, 2], np.int32)}
    np.testing.assert_array_equal(run(model, **feeds)["y"], evaluate(b.function(), feeds)["y"])
