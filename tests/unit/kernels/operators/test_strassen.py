"""Products in Strassen's form are products."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from glow_nb.base.costs import Cost
from glow_nb.base.errors import VerifyError
from glow_nb.base.types import Array, TensorType
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.evaluate import evaluate
from glow_nb.hlir.graph import Function, Placeholder
from glow_nb.hlir.lower import lower
from glow_nb.kernels.operators import StrassenMatMul, StrassenScales, StrassenWeights
from glow_nb.kernels.operators.panels import pack_bias

RANDOM = np.random.default_rng(0)


def product(lhs: str, inner: int, depth: int, block: int) -> Function:
    b = Builder()
    x, w = b.input("x", f"float32<{lhs}>"), b.input("w", f"float32<{inner} x {depth}>")
    bias = pack_bias(b, b.input("bias", f"float32<{depth}>"), 2, block)
    rhs, scales = (
        b.emit(StrassenWeights(w, block)),
        b.emit(StrassenScales(w, block)),
    )
    b.save(b.emit(StrassenMatMul(x, rhs, scales, bias, depth, block)), "y")
    return b.function()


def feeds(function: Function) -> dict[str, Array]:
    return {v.name: RANDOM.standard_normal(v.type.shape, np.float32) for v in function.inputs}


@pytest.mark.parametrize(
    ("lhs", "inner", "depth", "block"),
    [
        ("8 x 6", 6, 10, 4),
        ("2 x 3 x 4", 4, 2, 8),
        ("5 x 2", 2, 0, 4),
        ("1 x 8", 8, 12, 3),
        ("0 x 6", 6, 10, 4),
        ("2 x 0 x 6", 6, 4, 4),
        ("5 x 0", 0, 10, 4),
        ("8", 8, 4, 2),
    ],
)
def test_it_means_a_product(lhs: str, inner: int, depth: int, block: int) -> None:
    function = product(lhs, inner, depth, block)
    given = feeds(function)
    exact = given["x"].astype(float) @ given["w"].astype(float) + given["bias"]
    for each in (function, lower(function, lambda node: not isinstance(node, StrassenMatMul))):
        np.testing.assert_allclose(evaluate(each, given)["y"], exact, rtol=0, atol=1e-5)


@pytest.mark.parametrize("shape", [(0, 4), (4, 0), (6, 10)])
def test_constants_are_lowered_to_what_they_are(shape: tuple[int, int]) -> None:
    b = Builder()
    w = b.input("w", TensorType.of(np.zeros(shape, np.float32)))
    b.save(b.emit(StrassenWeights(w, 4)), "rhs")
    b.save(b.emit(StrassenScales(w, 4)), "scales")
    function = b.function()
    plain = lower(function, lambda node: isinstance(node, (StrassenWeights, StrassenScales)))
    assert not any(isinstance(node, (StrassenWeights, StrassenScales)) for node in plain)
    sizes = 2.0 ** RANDOM.integers(-120, 60, shape[1])
    weights = (RANDOM.standard_normal(shape) * sizes).astype(np.float32)
    if weights.size:
        weights[:, 1] = 0
    wanted, found = (evaluate(each, {"w": weights}) for each in (function, plain))
    for name, value in wanted.items():
        np.testing.assert_array_equal(found[name], value)


def test_columns_that_meet_are_made_as_large_as_the_largest_one() -> None:
    matrix = np.ones((4, 6), np.float32) * np.array([1, 3, 0, 8, 0, 5], np.float32)
    node = Placeholder("w", TensorType.of(matrix))
    scales = StrassenScales(node, 4).evaluate(matrix)
    assert scales.tolist() == [0.125, 1, 0, 1, 1, 0, 1, 1]
    made = StrassenWeights(node, 4).evaluate(matrix)
    assert made.shape == (1, 7, 2, 4)
    assert made[0, 1].tolist() == [[8, 3, 0, 0]] * 2  # the upper left block, scaled
    assert made[0, 4].tolist() == [[8, 0, 5, 0]] * 2  # the lower right one


def test_its_cost_is_that_of_seven_products() -> None:
    function = product("9 x 8", 8, 12, 4)
    (node,) = (node for node in function if isinstance(node, StrassenMatMul))
    assert node.cost() == Cost(9 * 8 * 12, 9 * 12)
    additions = 5 * (12 * 4 + 12 * 6)  # of five pairs of rows; each matrix has twelve signs
    assert node.executed_cost() == Cost(7 * 5 * 4 * 6, additions + 9 * 12)


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "odd sums": ({"lhs": "4 x 7"}, "7 and 8 must be multiples of 2"),
    "odd columns": ({"depth": 7}, "6 and 7 must be multiples of 2"),
    "a number": ({"lhs": ""}, "'lhs' must have rows"),
    "another kind": ({"kind": "float64"}, "'lhs' is float64"),
    "no panels": ({"block": 0}, "block is 0, but must be positive"),
    "other weights": ({"rhs": "1 x 7 x 2 x 4"}, "'rhs' is float32<1 x 7 x 2 x 4>, but lhs"),
    "other scales": ({"scales": "4"}, "'scales' is float32<4>, but lhs"),
    "another bias": ({"bias": "9"}, "'bias' is float32<9>, but lhs"),
}


@pytest.mark.parametrize("name", WRONG)
def test_operands_that_do_not_fit_are_refused(name: str) -> None:
    changes, said = WRONG[name]
    given: dict[str, Any] = {"depth": 8, "block": 4, "kind": "float32"}
    given |= {"lhs": "4 x 6", "rhs": "1 x 7 x 3 x 4", "scales": "8", "bias": "8"} | changes
    b = Builder()
    lhs, rhs, scales, bias = (
        b.input(each, f"{given['kind']}<{given[each]}>")
        for each in ("lhs", "rhs", "scales", "bias")
    )
    with pytest.raises(VerifyError, match=said):
        StrassenMatMul(lhs, rhs, scales, bias, *(given[each] for each in ("depth", "block")))


@pytest.mark.parametrize(
    ("matrix", "block", "said"),
    [
        ("float32<4 x 5>", 4, "two dimensions, both multiples of 2"),
        ("float32<2 x 4 x 4>", 4, "two dimensions, both multiples of 2"),
        ("float64<4 x 4>", 4, "'matrix' is float64"),
        ("float32<4 x 4>", -1, "block is -1"),
    ],
)
@pytest.mark.parametrize("node", [StrassenWeights, StrassenScales])
def test_matrices_that_cannot_be_cut_are_refused(
    node: type[StrassenWeights | StrassenScales], matrix: str, block: int, said: str
) -> None:
    with pytest.raises(VerifyError, match=said):
        node(Builder().input("w", matrix), block)
