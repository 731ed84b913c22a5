"""Products with floats of 28 bits are products."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from glow_nb.costs import Cost
from glow_nb.errors import VerifyError
from glow_nb.float28 import filler
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.evaluate import evaluate
from glow_nb.hlir.graph import Function, Placeholder
from glow_nb.hlir.lower import lower
from glow_nb.kernels.operators import Float28MatMul, Float28Words
from glow_nb.kernels.operators.float28 import MOST_COUNTED, Outliers
from glow_nb.types import Array, TensorType

RANDOM = np.random.default_rng(0)
SPECIALS = (0.0, -0.0, np.inf, -np.inf, np.nan, 1e-30, -1e-42, 1e30)


def matrix_of(inner: int, depth: int, specials: int = 0) -> Array:
    """Return weights, some of which are special."""
    matrix = (RANDOM.standard_normal((inner, depth)) * 0.02).astype(np.float32)
    places = RANDOM.choice(max(1, matrix.size), min(specials, matrix.size), replace=False)
    matrix.reshape(-1)[places] = RANDOM.choice(SPECIALS, len(places))
    return matrix


def product(lhs: str, matrix: Array, block: int) -> Function:
    b, depth = Builder(), matrix.shape[1]
    outliers = Outliers.of(matrix, block)
    x, w = b.input("x", f"float32<{lhs}>"), b.constant("w", matrix)
    words = b.emit(Float28Words(w, block, outliers.least))
    places, numbers = b.constant("places", outliers.places), b.constant("n", outliers.numbers)
    padding = len(outliers.places) * block - depth
    bias = b.constant("bias", np.pad(np.arange(depth, dtype=np.float32), (0, padding)))
    made = Float28MatMul(x, words, places, numbers, bias, depth, block, outliers.least)
    b.save(b.emit(made), "y")
    return b.function()


SHAPES = [
    ("2 x 16", 16, 10, 4),
    ("3 x 2 x 21", 21, 37, 8),
    ("1 x 7", 7, 5, 4),
    ("2 x 8", 8, 0, 4),
    ("2 x 0", 0, 6, 4),
    ("0 x 9", 9, 6, 4),
    ("24", 24, 3, 1),
]


@pytest.mark.parametrize(("lhs", "inner", "depth", "block"), SHAPES)
@pytest.mark.parametrize("specials", [0, 5])
def test_it_means_a_product(lhs: str, inner: int, depth: int, block: int, specials: int) -> None:
    matrix = matrix_of(inner, depth, specials)
    function = product(lhs, matrix, block)
    x = RANDOM.standard_normal(function.inputs[0].type.shape, np.float32)
    with np.errstate(all="ignore"):
        exact = x.astype(float) @ matrix + np.arange(depth)
        np.testing.assert_array_equal(evaluate(function, {"x": x})["y"], exact.astype(np.float32))


@pytest.mark.parametrize(("lhs", "inner", "depth", "block"), SHAPES)
def test_words_are_lowered_to_what_they_are(lhs: str, inner: int, depth: int, block: int) -> None:
    b = Builder()
    w = b.input("w", TensorType.of(np.zeros((inner, depth), np.float32)))
    b.save(b.emit(Float28Words(w, block, 110)), "words")
    function = b.function()
    plain = lower(function, lambda node: isinstance(node, Float28Words))
    assert not any(isinstance(node, Float28Words) for node in plain)
    feeds = {"w": matrix_of(inner, depth, 5)}
    wanted, found = (evaluate(each, feeds)["words"] for each in (function, plain))
    np.testing.assert_array_equal(found, wanted)


def test_outliers_are_found_by_panels() -> None:
    matrix = np.full((17, 21), 0.25, np.float32)
    matrix[3, 9], matrix[2, 15], matrix[2, 8], matrix[0, 20] = 0, 1e9, 1e-9, np.nan
    matrix[16] = 0  # behind the last eight rows: kept as it is
    found = Outliers.of(matrix, 8)
    assert found.count == 4
    assert found.places.tolist() == [[-1] * 3, [16, 23, 25], [4, -1, -1], [-1] * 3]
    np.testing.assert_array_equal(
        found.numbers, np.array([[0] * 3, [1e-9, 1e9, 0], [np.nan, 0, 0], [0] * 3], np.float32)
    )
    assert 0 < filler(found.least) <= 0.25
    assert Outliers.of(matrix_of(8, 3 * MOST_COUNTED // 8), 16).count < MOST_COUNTED / 1000


def test_places_that_do_not_ascend_hold_nothing() -> None:
    matrix = matrix_of(8, 4)
    words = Float28Words(Placeholder("w", TensorType.of(matrix)), 4, 108).evaluate(matrix)
    places = np.full((4, 5), -1, np.int32)
    places[0] = [2, 2, 1, 900, 3]
    outliers = np.full((4, 5), 7, np.float32)
    b = Builder()
    x, rhs = b.input("x", "float32<8 x 8>"), b.constant("rhs", words)
    at, numbers = b.constant("places", places), b.constant("outliers", outliers)
    b.save(b.emit(Float28MatMul(x, rhs, at, numbers, None, 4, 4, 108)), "y")
    matrix[0, 2] = 7
    found = evaluate(b.function(), {"x": np.eye(8, dtype=np.float32)})["y"]
    np.testing.assert_array_equal(found, matrix)


def test_its_cost_is_that_of_a_product() -> None:
    function = product("2 x 16", matrix_of(16, 10), 4)
    (node,) = (node for node in function if isinstance(node, Float28MatMul))
    assert node.cost() == Cost(2 * 16 * 10, 2 * 10)


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "a number": ({"lhs": ""}, "'lhs' must have rows"),
    "another kind": ({"lhs": "float64<2 x 16>"}, "'lhs' is float64"),
    "no panels": ({"block": 0}, "block is 0, but must be positive"),
    "no depth": ({"depth": -1}, "depth is -1, but must not be negative"),
    "no exponent": ({"least": 0}, "least is 0, but must be an exponent from 1 to 239"),
    "infinite numbers": ({"least": 240}, "least is 240, but must be an exponent from 1 to 239"),
    "other words": ({"rhs": "uint32<4 x 16 x 4>"}, "'rhs' is uint32<4 x 16 x 4>, but lhs"),
    "other places": ({"places": "int32<3 x 2>"}, "'places' is int32<3 x 2>, but lhs"),
    "fewer outliers": ({"outliers": "float32<4 x 1>"}, "'outliers' is float32<4 x 1>, but lhs"),
    "another bias": ({"bias": "float32<10>"}, "'bias' is float32<10>, but lhs"),
}


@pytest.mark.parametrize("name", WRONG)
def test_operands_that_do_not_fit_are_refused(name: str) -> None:
    changes, said = WRONG[name]
    given: dict[str, Any] = {"lhs": "float32<2 x 16>", "rhs": "uint32<4 x 14 x 4>"}
    given |= {"places": "int32<4 x 2>", "outliers": "float32<4 x 2>", "bias": "float32<16>"}
    given |= {"depth": 10, "block": 4, "least": 110} | changes
    b = Builder()
    lhs, rhs, places, outliers, bias = (
        b.input(each, given[each] or "float32<>")
        for each in ("lhs", "rhs", "places", "outliers", "bias")
    )
    attributes = given["depth"], given["block"], given["least"]
    with pytest.raises(VerifyError, match=said):
        Float28MatMul(lhs, rhs, places, outliers, bias, *attributes)


@pytest.mark.parametrize(
    ("matrix", "block", "least", "said"),
    [
        ("float32<8>", 4, 110, "must have two dimensions"),
        ("float64<8 x 4>", 4, 110, "'matrix' is float64"),
        ("float32<8 x 4>", 0, 110, "block is 0"),
        ("float32<8 x 4>", 4, 255, "least is 255"),
    ],
)
def test_matrices_that_cannot_be_packed_are_refused(
    matrix: str, block: int, least: int, said: str
) -> None:
    with pytest.raises(VerifyError, match=said):
        Float28Words(Builder().input("w", matrix), block, least)
