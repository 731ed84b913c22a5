"""Products with floats of 28 bits are products."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from glow_nb.costs import Cost
from glow_nb.errors import VerifyError
from glow_nb.float28 import unpacked_words
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


def outliers_of(matrix: Array, block: int) -> Outliers:
    """Return those of *matrix*, however many they are."""
    found = Outliers.of(matrix, block, matrix.size)
    assert found is not None
    return found


def product(lhs: str, matrix: Array, block: int) -> Function:
    b, depth = Builder(), matrix.shape[1]
    outliers = outliers_of(matrix, block)
    x, w = b.input("x", f"float32<{lhs}>"), b.constant("w", matrix)
    words = b.emit(Float28Words(w, block, outliers.least))
    least = b.constant("least", np.array([outliers.least], np.int32))
    places, numbers = b.constant("places", outliers.places), b.constant("n", outliers.numbers)
    padding = len(outliers.places) * block - depth
    bias = b.constant("bias", np.pad(np.arange(depth, dtype=np.float32), (0, padding)))
    made = Float28MatMul(x, words, least, places, numbers, bias, depth, block)
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
    matrix = np.full((17, 21), 0.3, np.float32)
    matrix[3, 9], matrix[2, 15], matrix[2, 8], matrix[0, 20] = 1e-9, 1e9, 1e-9, np.nan
    matrix[4, 10:13] = 1e9
    matrix[5], matrix[16] = 0, 1e9  # which have a code, or are kept as they are
    found = outliers_of(matrix, 8)
    assert found.places.shape == (4, 8)  # a power of two
    assert found.places[1].tolist() == [16, 23, 25, 34, 35, 36, -1, -1]
    assert (
        found.numbers[1, :6].tolist() == matrix[[2, 2, 3, 4, 4, 4], [8, 15, 9, 10, 11, 12]].tolist()
    )
    assert found.places[2].tolist() == [4, *[-1] * 7]
    assert np.isnan(found.numbers[2, 0])
    assert (found.places[[0, 3]] == -1).all()
    assert not found.numbers[found.places == -1].any()
    assert 110 <= found.least <= 125
    assert Outliers.of(matrix, 8, 6) is not None
    assert Outliers.of(matrix, 8, 5) is None


def test_a_part_of_a_large_matrix_tells_the_exponents() -> None:
    matrix = matrix_of(64, 3 * MOST_COUNTED // 64)
    assert (outliers_of(matrix, 16).places >= 0).sum() < matrix.size / 4000


def test_places_that_do_not_ascend_end_the_outliers() -> None:
    matrix = matrix_of(9, 4)
    matrix[0, 2], matrix[1, 3] = 0, 0
    node = Float28Words(Placeholder("w", TensorType.of(matrix)), 4, 108)
    places, outliers = np.full((4, 5), -1, np.int32), np.full((4, 5), 7, np.float32)
    for given, ends in (([2, 7, 7, 8, 9], 2), ([2, 32, 7, 8, 9], 1), ([-1, 2, 7, 8, 9], 0)):
        places[0] = given
        b = Builder()
        x, rhs = b.input("x", "float32<9 x 9>"), b.constant("rhs", node.evaluate(matrix))
        least = b.constant("least", np.array([108], np.int32))
        at, numbers = b.constant("places", places), b.constant("outliers", outliers)
        b.save(b.emit(Float28MatMul(x, rhs, least, at, numbers, None, 4, 4)), "y")
        wanted = matrix.copy()
        wanted.reshape(-1)[given[:ends]] = 7
        found = evaluate(b.function(), {"x": np.eye(9, dtype=np.float32)})["y"]
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("least", [-1, 0, 240, 512, -(2**31), 2**31 - 1])
def test_an_exponent_that_is_none_is_computed_with_as_well(least: int) -> None:
    """It may come at run time: what it means is what a kernel adds, in 32 bits."""
    matrix = matrix_of(8, 4)
    words = Float28Words(Placeholder("w", TensorType.of(matrix)), 4, 108).evaluate(matrix)
    back = unpacked_words(words.reshape(4, 1, 7, 4), least).view(np.uint32)
    right = unpacked_words(words.reshape(4, 1, 7, 4), 108).view(np.uint32)
    moved = np.uint32((least - 108 << 23) % 2**32)
    np.testing.assert_array_equal(back[0], np.where(right[0] << 1 == 0, right[0], right[0] + moved))


def test_its_cost_is_that_of_a_product() -> None:
    function = product("2 x 16", matrix_of(16, 10), 4)
    (node,) = (node for node in function if isinstance(node, Float28MatMul))
    assert node.cost() == Cost(2 * 16 * 10, 2 * 10)


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "a number": ({"lhs": ""}, "'lhs' must have rows"),
    "another kind": ({"lhs": "float64<2 x 16>"}, "'lhs' is float64"),
    "no panels": ({"block": 0}, "block is 0, but must be positive"),
    "no depth": ({"depth": -1}, "depth is -1, but must not be negative"),
    "another exponent": ({"least": "int64<1>"}, "'least' is int64<1>, but lhs"),
    "other words": ({"rhs": "uint32<4 x 16 x 4>"}, "'rhs' is uint32<4 x 16 x 4>, but lhs"),
    "other places": ({"places": "int32<3 x 2>"}, "'places' is int32<3 x 2>, but lhs"),
    "fewer outliers": ({"outliers": "float32<4 x 1>"}, "'outliers' is float32<4 x 1>, but lhs"),
    "another bias": ({"bias": "float32<10>"}, "'bias' is float32<10>, but lhs"),
}


@pytest.mark.parametrize("name", WRONG)
def test_operands_that_do_not_fit_are_refused(name: str) -> None:
    changes, said = WRONG[name]
    given: dict[str, Any] = {"lhs": "float32<2 x 16>", "rhs": "uint32<4 x 14 x 4>"}
    given |= {"least": "int32<1>", "places": "int32<4 x 2>", "outliers": "float32<4 x 2>"}
    given |= {"bias": "float32<16>", "depth": 10, "block": 4} | changes
    b = Builder()
    lhs, rhs, least, places, outliers, bias = (
        b.input(each, given[each] or "float32<>")
        for each in ("lhs", "rhs", "least", "places", "outliers", "bias")
    )
    with pytest.raises(VerifyError, match=said):
        Float28MatMul(lhs, rhs, least, places, outliers, bias, given["depth"], given["block"])


@pytest.mark.parametrize(
    ("matrix", "block", "least", "said"),
    [
        ("float32<8>", 4, 110, "must have two dimensions"),
        ("float64<8 x 4>", 4, 110, "'matrix' is float64"),
        ("float32<8 x 4>", 0, 110, "block is 0"),
        ("float32<8 x 4>", 4, 0, "least is 0, but must be an exponent from 1 to 239"),
        ("float32<8 x 4>", 4, 240, "least is 240, but must be an exponent from 1 to 239"),
    ],
)
def test_matrices_that_cannot_be_packed_are_refused(
    matrix: str, block: int, least: int, said: str
) -> None:
    with pytest.raises(VerifyError, match=said):
        Float28Words(Builder().input("w", matrix), block, least)
