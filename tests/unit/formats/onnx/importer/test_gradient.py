"""The operator Gradient, which asks for gradients of a tensor of the model that it stands in."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx.backend.test.loader import load_model_tests

from glow_nb.base.errors import ModelError, UnsupportedError
from glow_nb.formats.onnx.importer import import_onnx
from glow_nb.hlir.evaluate import evaluate
from glow_nb.tools.conformance import run_test
from tests.unit.formats.onnx.importer.models import model, value

DOMAIN = "ai.onnx.preview.training"
OPSETS = [helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, 1)]


def gradient(operands: list[str], outputs: list[str], **attributes: Any) -> onnx.NodeProto:
    return helper.make_node("Gradient", operands, outputs, domain=DOMAIN, **attributes)


def run(nodes: list[onnx.NodeProto], outputs: list[str], **feeds: Any) -> list[Any]:
    inputs = [value(name, array.shape) for name, array in feeds.items()]
    proto = model(nodes, inputs, outputs, opset_imports=OPSETS)
    return list(evaluate(import_onnx(proto), feeds).values())


def vector(*numbers: float) -> Any:
    return np.array(numbers, np.float32)


def test_the_models_of_the_suite() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = [c for c in load_model_tests(kind="simple") if c.name.startswith("test_gradient")]
    assert cases
    for case in cases:
        if case.model is not None:
            assert run_test(case, "evaluate") == ("passed", ""), case.name


def test_elements_of_a_tensor_are_summed() -> None:
    nodes = [
        helper.make_node("Mul", ["x", "w"], ["h"]),
        helper.make_node("Mul", ["h", "x"], ["y"]),
        gradient(["x", "w"], ["dx", "dw"], xs=["x", "w"], y="y"),
    ]
    x, w = vector(1, 2, 3), vector(4, 5, 6)
    dx, dw = run(nodes, ["dx", "dw"], x=x, w=w)
    np.testing.assert_array_equal(dx, 2 * x * w)
    np.testing.assert_array_equal(dw, x * x)


def test_what_is_named_in_zs_does_not_vary() -> None:
    nodes = [
        helper.make_node("Mul", ["x", "x"], ["z"]),
        helper.make_node("Mul", ["z", "x"], ["y"]),
        gradient(["x", "z"], ["dx"], xs=["x"], zs=["z"], y="y"),
        gradient(["x"], ["whole"], xs=["x"], y="y"),
        gradient(["z", "x"], ["dz", ""], xs=["z", "x"], y="y"),
    ]
    x = vector(2, -3)
    dx, whole, dz = run(nodes, ["dx", "whole", "dz"], x=x)
    np.testing.assert_array_equal(dx, x * x)
    np.testing.assert_array_equal(whole, 3 * x * x)
    np.testing.assert_array_equal(dz, x)


def test_gradients_are_taken_at_other_tensors() -> None:
    nodes = [
        helper.make_node("Mul", ["x", "x"], ["y"]),
        gradient(["other"], ["dx"], xs=["x"], y="y"),
    ]
    (dx,) = run(nodes, ["dx"], x=vector(2, 3), other=vector(5, 7))
    np.testing.assert_array_equal(dx, [10, 14])


def test_second_derivatives_and_any_order_of_nodes() -> None:
    nodes = [
        gradient(["x"], ["ddx"], xs=["x"], y="dx"),
        gradient(["x"], ["dx"], xs=["x"], y="y"),
        helper.make_node("Mul", ["h", "x"], ["y"]),
        helper.make_node("Mul", ["x", "x"], ["h"]),
    ]
    x = vector(2, -1)
    dx, ddx = run(nodes, ["dx", "ddx"], x=x)
    np.testing.assert_array_equal(dx, 3 * x * x)
    np.testing.assert_array_equal(ddx, 6 * x)


@pytest.mark.parametrize(
    ("nodes", "error", "message"),
    [
        (
            [gradient(["x"], ["dx"], xs=["x"], y="nothing")],
            ModelError,
            "reads 'nothing', which no input, weight or node defines",
        ),
        (
            [
                helper.make_node("Mul", ["x", "x"], ["y"]),
                gradient(["w"], ["dx"], xs=["x"], y="y"),
            ],
            ModelError,
            r"its operands are \[float32<2>\], but its xs and zs are \[float32<3>\]",
        ),
        (
            [
                helper.make_node("Relu", ["w"], ["y"]),
                gradient(["x"], ["dx"], xs=["x"], y="y"),
            ],
            UnsupportedError,
            "does not depend on any of x",
        ),
        (
            [
                helper.make_node("Relu", ["w"], ["y"]),
                gradient(["w", "w"], ["dx"], xs=["w"], zs=["w"], y="y"),
            ],
            UnsupportedError,
            "two of its xs and zs are the same tensor",
        ),
    ],
)
def test_what_cannot_be_differentiated(nodes: Any, error: type[Exception], message: str) -> None:
    proto = model(nodes, [value("x", (3,)), value("w", (2,))], ("dx",), opset_imports=OPSETS)
    with pytest.raises(error, match=message):
        import_onnx(proto)
