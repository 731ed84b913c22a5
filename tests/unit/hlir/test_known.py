"""Constants of one number repeated."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from glow_nb.base.types import Array, TensorType
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Constant
from glow_nb.hlir.known import is_about, is_uniform, uniform


def constant(array: Array) -> Constant:
    return Builder().constant("c", array)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int8, np.uint64, ml_dtypes.bfloat16])
def test_the_number_that_repeats(dtype: type) -> None:
    assert uniform(constant(np.full((2, 3), 3, dtype))) == 3
    assert uniform(constant(np.array(3, dtype))) == 3
    assert uniform(constant(np.array([3, 2, 3], dtype))) is None


def test_a_tensor_may_have_as_many_axes_as_numpy_allows() -> None:
    assert uniform(constant(np.full((2, *(1,) * 63), 3, np.float32))) == 3


def test_what_has_no_number() -> None:
    assert uniform(constant(np.full((2,), np.nan, np.float32))) is None
    assert uniform(constant(np.zeros((0, 4), np.float32))) is None
    assert uniform(Builder().input("x", "float32<1>")) is None
    assert uniform(Constant("c", TensorType.of(np.zeros(1, np.float32)))) is None


def test_rounded_numbers() -> None:
    assert is_about(constant(np.array([1 / 3], np.float32)), 1 / 3)
    assert is_about(constant(np.array([1 / 3], np.float16)), 1 / 3)
    assert not is_about(constant(np.array([0.3333], np.float32)), 1 / 3)
    assert is_uniform(constant(np.array([-0.0], np.float32)), 0)
