"""What is known of the numbers that a value can hold."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Node, Value
from glow_nb.hlir.ops import (
    Abs,
    Add,
    AvgPool,
    Clip,
    Concat,
    Exp,
    MaxPool,
    Mul,
    Neg,
    ReduceMean,
    ReduceSum,
    Relu,
    Sigmoid,
    Softmax,
    Split,
    Tanh,
)
from glow_nb.hlir.optimize.ranges import ANYTHING, range_of

WINDOW: dict[str, Any] = {"kernel": (2,), "stride": (1,), "dilation": (1,)}


@pytest.fixture
def x() -> Value:
    return Builder().input("x", "float32<1 x 6 x 2>")


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (Relu, (0.0, math.inf)),
        (Sigmoid, (0.0, 1.0)),
        (lambda x: Relu(Tanh(x)), (0.0, 1.0)),
        (lambda x: Clip(Softmax(x, axis=1), minimum=0.25, maximum=9.0), (0.25, 1.0)),
        (lambda x: Mul(x, x), (0.0, math.inf)),
        (lambda x: Mul(x, Neg(x)), ANYTHING),
        (lambda x: Add(Exp(x), Abs(x)), (0.0, math.inf)),
        (lambda x: ReduceMean(Sigmoid(x), axes=(1,)), (0.0, 1.0)),
        (lambda x: ReduceSum(Tanh(x), axes=(1,)), (-math.inf, math.inf)),
        (lambda x: Concat((Sigmoid(x), Tanh(x)), axis=1), (-1.0, 1.0)),
        (lambda x: Split(Sigmoid(x), axis=1, sizes=(2, 4)).results[1], (0.0, 1.0)),
        (lambda x: MaxPool(Relu(x), pads=(0, 0), **WINDOW), (0.0, math.inf)),
        # A window in padding alone gives -inf, and cells of padding pull a mean towards 0.
        (lambda x: MaxPool(Relu(x), pads=(2, 0), **WINDOW), ANYTHING),
        (lambda x: AvgPool(Clip(x, 1.0, 2.0), pads=(1, 0), **WINDOW), (0.0, 2.0)),
    ],
)
def test_range(make: Callable[[Value], Node], expected: tuple[float, float], x: Value) -> None:
    assert range_of(make(x)) == expected


def test_range_of_a_constant() -> None:
    b = Builder()
    assert range_of(b.constant("c", np.array([-2.0, 3.0], np.float32))) == (-2.0, 3.0)
    assert range_of(b.constant("n", np.array([-2.0, np.nan], np.float32))) == ANYTHING
    assert range_of(b.constant("e", np.zeros((0,), np.float32))) == ANYTHING


def test_integers_wrap_so_that_sums_and_squares_are_unknown() -> None:
    x = Builder().input("x", "int8<4>")
    low = Clip(x, minimum=100.0, maximum=127.0)
    assert range_of(low) == (100.0, 127.0)
    assert range_of(Add(low, low)) == ANYTHING
    assert range_of(Mul(x, x)) == ANYTHING
    assert range_of(Abs(x)) == ANYTHING
