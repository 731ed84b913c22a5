"""Gradients are compared with finite differences."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from typing_extensions import override

from glow_nb.base.errors import FeedError, GradientError, OptionError
from glow_nb.hlir import ops
from glow_nb.hlir.backward import Backward
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.check_gradients import check_gradients
from glow_nb.hlir.graph import NODES, Function, Value, define_node
from glow_nb.hlir.ops.families import UnaryElementwise
from glow_nb.hlir.rules import GRADIENTS, gradient

X = np.linspace(-1, 1, 6).reshape(2, 3)


def loss_of(node_class: type[UnaryElementwise], kind: str = "float64") -> Function:
    """Return the sum of ``f(x) * w`` over a matrix and a row that is repeated."""
    builder = Builder()
    x, w = builder.input("x", f"{kind}<2 x 3>"), builder.input("w", f"{kind}<1 x 3>")
    product = builder.emit(ops.Mul(builder.emit(node_class(x)), w))
    total = builder.emit(ops.ReduceSum(product, axes=(0, 1), keep_dims=False))
    builder.save(total, "loss")
    return builder.function()


FEEDS = {"x": X, "w": np.array([[1.0, -2.0, 1e3]])}


@pytest.fixture
def wrong() -> Iterator[type[UnaryElementwise]]:
    """Define an operator whose gradient is wrong where x is positive, and forget it again."""

    @define_node("wrong_slope_for_the_test", scalar="tanh(input)")
    class WrongSlope(UnaryElementwise):
        """``tanh(input)``."""

        @override
        def compute(self, x: Any) -> Any:
            return np.tanh(x)

    @gradient(WrongSlope)
    def slope(node: WrongSlope, upstream: Value, builder: Backward) -> dict[str, Value]:
        up, y = builder.terms(upstream, builder.emit(ops.Relu(node)))
        return {"input": (up * (1 - y * y)).value}

    yield WrongSlope
    del NODES[WrongSlope.opcode], GRADIENTS[WrongSlope]


def test_right_gradients_pass() -> None:
    check_gradients(loss_of(ops.Tanh), FEEDS)
    check_gradients(loss_of(ops.Tanh), FEEDS, ["w"], "loss")


def test_a_wrong_gradient_is_named(wrong: type[UnaryElementwise]) -> None:
    check_gradients(loss_of(wrong), FEEDS, ["w"])
    with pytest.raises(GradientError, match=r"the gradient for 'x' at \[0, 1\] is -2, and by"):
        check_gradients(loss_of(wrong), FEEDS | {"w": np.array([[0.1, -2.0, 1.0]])})


def test_a_gradient_that_is_not_finite_is_wrong() -> None:
    with pytest.raises(GradientError, match=r"the gradient for 'x' at \[0, 0\] is (inf|nan)"):
        check_gradients(loss_of(ops.Sqrt), FEEDS | {"x": np.zeros((2, 3))})
    with pytest.raises(GradientError, match=r"'x' at \[0, 0\] is inf, and by finite .* nan"):
        check_gradients(loss_of(ops.Exp), {"x": X + 800, "w": np.ones((1, 3))})


def test_inputs_that_have_too_few_digits() -> None:
    narrow = {name: array.astype(np.float32) for name, array in FEEDS.items()}
    with pytest.raises(GradientError, match="'x' cannot be compared .*inputs of float64"):
        check_gradients(loss_of(ops.Tanh, "float32"), narrow, ["x"])
    with pytest.raises(GradientError, match="wrt is empty"):
        check_gradients(loss_of(ops.Tanh, "float32"), narrow)


def test_bad_arguments() -> None:
    wrong: Any = "x"
    with pytest.raises(GradientError, match="wrt is 'x'; give a list of names"):
        check_gradients(loss_of(ops.Tanh), FEEDS, wrong)
    wrong = [["x"]]
    with pytest.raises(GradientError, match="wrt holds .*; give names of inputs"):
        check_gradients(loss_of(ops.Tanh), FEEDS, wrong)
    with pytest.raises(OptionError, match="tolerance=nan: give a number of at least 0"):
        check_gradients(loss_of(ops.Tanh), FEEDS, tolerance=float("nan"))


def test_bad_feeds() -> None:
    with pytest.raises(FeedError, match="not fed"):
        check_gradients(loss_of(ops.Tanh), {"x": X})
