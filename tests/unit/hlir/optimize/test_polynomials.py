"""Arithmetic on one value read as a polynomial."""

from __future__ import annotations

import numpy as np
import pytest

from glow_nb.base.types import ElementKind
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Constant, Value
from glow_nb.hlir.ops import Add, Div, Mul, Neg, Pow, Sub, Tanh
from glow_nb.hlir.optimize.polynomials import is_close, polynomial_of


@pytest.fixture
def x() -> Value:
    return Builder().input("x", "float32<4>")


def number(value: float) -> Constant:
    return Builder().constant("c", np.array([value], np.float32))


def test_every_way_to_write_a_cubic(x: Value) -> None:
    # 2 x + 3 x ** 3
    forms = (
        Add(Mul(x, number(2)), Mul(number(3), Pow(x, number(3)))),
        Mul(x, Add(number(2), Mul(Mul(x, x), number(3)))),
        Sub(Div(x, number(0.5)), Mul(Neg(Mul(x, Mul(x, x))), number(3))),
    )
    for form in forms:
        assert polynomial_of(form, x) == {1: 2.0, 3: 3.0}


def test_what_is_no_polynomial(x: Value) -> None:
    assert polynomial_of(Tanh(x), x) is None
    assert polynomial_of(Div(number(1), x), x) is None
    assert polynomial_of(Pow(x, number(0.5)), x) is None
    assert polynomial_of(Div(x, number(0)), x) is None
    assert polynomial_of(Mul(Pow(x, number(4)), x), x) is None  # beyond what is looked for
    assert polynomial_of(Mul(x, Builder().input("z", "float32<4>")), x) is None


def test_coefficients_are_as_exact_as_the_kind() -> None:
    assert is_close({1: 0.70710678}, {1: 0.5**0.5}, ElementKind.FLOAT32)
    assert not is_close({1: 0.7071}, {1: 0.5**0.5}, ElementKind.FLOAT32)
    assert is_close({1: 0.707}, {1: 0.5**0.5}, ElementKind.FLOAT16)
    assert not is_close({1: 1.0, 2: 1.0}, {1: 1.0}, ElementKind.FLOAT32)
    assert not is_close(None, {1: 1.0}, ElementKind.FLOAT32)
