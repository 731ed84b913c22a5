"""Gradients where there is no derivative, and where float32 ends.

What PyTorch 2.13 gives was written down from it; where ours is another number, the test says so.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf, nan
from typing import Any

import numpy as np
import pytest

from glow_nb.base.types import Array, ElementKind, TensorType
from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.differentiate import differentiate
from glow_nb.hlir.evaluate import evaluate
from glow_nb.hlir.graph import Constant, Node, Value

Make = Callable[..., Node]
"""Takes the operands and gives a node; its result counts."""


def slopes(make: Make, *operands: Any) -> list[Array]:
    """Return the gradients of the sum of all results, for each operand, in float32."""
    builder, feeds = Builder(), dict[str, Array]()
    for number, operand in enumerate(operands):
        feeds[f"x{number}"] = np.array(operand, np.float32)
    values = [builder.input(name, TensorType.of(array)) for name, array in feeds.items()]
    value = builder.emit(make(*values)).results[0]
    axes = tuple(range(value.type.rank))
    builder.save(builder.emit(ops.ReduceSum(value, axes, keep_dims=False)), "loss")
    found = evaluate(differentiate(builder.function(), feeds), feeds)
    return [found[f"d_{name}"] for name in feeds]


def number(value: float) -> Value:
    return Constant.of("number", np.full(1, value, np.float32))


def places(*values: Any) -> Value:
    return Constant.of("places", np.array(values, np.int64))


def local_response(alpha: float, beta: float) -> Make:
    return lambda x: ops.LocalResponseNormalization(x, 2, alpha, beta, bias=0.0)


FIRST = Constant.of("first", np.array([True, False]))

ONE_OPERAND: list[tuple[str, Make, list[float], list[float]]] = [
    ("relu", ops.Relu, [0.0, -0.0, nan], [0, 0, 1]),
    ("leaky_relu", lambda x: ops.LeakyRelu(x, alpha=0.5), [0.0, -2.0], [0.5, 0.5]),
    ("leaky_relu<0", lambda x: ops.LeakyRelu(x, alpha=-2.0), [0.0, -2.0, 3.0], [-2, -2, 1]),
    ("elu", lambda x: ops.Elu(x, alpha=2.0), [0.0, 1.0, -200.0], [2, 1, 0]),
    ("abs", ops.Abs, [0.0, -3.0], [0, -1]),
    ("clip", lambda x: ops.Clip(x, 0.0, 1.0), [0.0, 1.0, -1.0, 2.0, nan], [1, 1, 0, 0, 0]),
    ("clip without bounds", ops.Clip, [-1.0, 1.0], [1, 1]),
    ("hard_sigmoid", lambda x: ops.HardSigmoid(x, 0.25, 0.5), [-2.0, 0.0, 2.0], [0, 0.25, 0]),
    ("hard_swish", ops.HardSwish, [-3.0, 3.0, 0.0, -9.0], [0, 1, 0.5, 0]),
    ("softplus", ops.Softplus, [100.0, -200.0], [1, 0]),
    ("sigmoid", ops.Sigmoid, [200.0, -200.0], [0, 0]),
    ("tanh", ops.Tanh, [200.0, -200.0], [0, 0]),
    ("swish", ops.Swish, [1e10, -1e10], [1, 0]),
    ("gelu", ops.Gelu, [1e30, -1e30], [1, 0]),
    ("gelu by tanh", lambda x: ops.Gelu(x, "tanh"), [1e14, 1e30, -1e14, -1e30], [1, 1, 0, 0]),
    ("atan", ops.Atan, [1e25], [0]),
    ("asinh", ops.Asinh, [1e25], [0]),
    ("sqrt", ops.Sqrt, [0.0], [inf]),
    ("floor", ops.Floor, [0.0, 1.5], [0, 0]),
    ("maximum with itself", lambda x: ops.Maximum(x, x), [1.0], [1]),
    ("base", lambda x: ops.Pow(x, number(0.0)), [0.0, -1.0], [0, 0]),
    ("base cubed", lambda x: ops.Pow(x, number(3.0)), [0.0, -1.0], [0, 3]),
    ("base itself", lambda x: ops.Pow(x, number(1.0)), [0.0], [1]),
    ("exponent of 0", lambda x: ops.Pow(number(0.0), x), [0.0, 2.0], [0, 0]),
    ("exponent of -1", lambda x: ops.Pow(number(-1.0), x), [2.0], [nan]),
    ("reduce_max", lambda x: ops.ReduceMax(x, (0,)), [1.0, 1.0, 0.0], [0.5, 0.5, 0]),
    ("reduce_min", lambda x: ops.ReduceMin(x, (0,)), [1.0, 0.0, 0.0], [0, 0.5, 0.5]),
    ("reduce_prod", lambda x: ops.ReduceProd(x, (0,)), [0.0, 2.0, 3.0], [6, 0, 0]),
    ("reduce_prod of zeros", lambda x: ops.ReduceProd(x, (0,)), [0.0, 0.0, 3.0], [0, 0, 0]),
    ("reduce_prod of one", lambda x: ops.ReduceProd(x, (0,)), [0.0], [1]),
    # PyTorch gives NaN for both: infinity times the 0 by which the input counts.
    ("local_response_normalization by 0", local_response(0.0, -0.5), [1.0, -2.0], [0, 0]),
    ("local_response_normalization by 1", local_response(0.5, 0.0), [0.0, 0.0], [1, 1]),
    ("top_k", lambda x: ops.TopK(x, 2, 0), [1.0, 3.0, 1.0], [1, 1, 0]),
    ("gather", lambda x: ops.Gather(x, places(1, -1, 1)), [1.0, 2.0, 3.0], [0, 2, 1]),
    ("select", lambda x: ops.Select(FIRST, x, number(nan)), [inf, nan], [1, 0]),
]


@pytest.mark.parametrize(
    ("make", "operand", "wanted"), [c[1:] for c in ONE_OPERAND], ids=[c[0] for c in ONE_OPERAND]
)
def test_corners_of_one_operand(make: Make, operand: list[float], wanted: list[float]) -> None:
    np.testing.assert_allclose(slopes(make, operand)[0], wanted, rtol=1e-6)


def written(reduction: str) -> Make:
    """Return what writes three updates: two at place 0 and one at place 2."""
    return lambda data, updates: ops.ScatterElements(data, places(0, 0, 2), updates, 0, reduction)


TWO_OPERANDS: list[tuple[str, Make, list[list[float]], list[list[float]]]] = [
    ("maximum", ops.Maximum, [[1, 2], [1, 1]], [[0.5, 1], [0.5, 0]]),
    ("minimum", ops.Minimum, [[1, 2], [1, 1]], [[0.5, 0], [0.5, 1]]),
    ("maximum of nan", ops.Maximum, [[nan], [1]], [[1], [1]]),
    ("modulo", ops.Modulo, [[5, -5], [3, 3]], [[1, 1], [-1, 2]]),
    ("fmod", lambda x, y: ops.Modulo(x, y, fmod=True), [[5, -5], [3, 3]], [[1, 1], [-1, 1]]),
    ("div", ops.Div, [[0, 1e-30], [1e-20, 1e-20]], [[1e20, 1e20], [0, -1e10]]),
    ("prelu", ops.PRelu, [[0, -2], [0.5, 0.5]], [[0.5, 0.5], [0, -2]]),
    # PyTorch gives the gradient to all updates of one place, and calls that incorrect.
    ("scatter", written("none"), [[1, 2, 3], [4, 5, 6]], [[0, 1, 0], [0, 1, 1]]),
    ("scatter sums", written("add"), [[1, 2, 3], [4, 5, 6]], [[1, 1, 1], [1, 1, 1]]),
    ("scatter products", written("mul"), [[1, 2, 3], [4, 5, 6]], [[20, 1, 6], [5, 4, 3]]),
    ("scatter one 0", written("mul"), [[2, 2, 0], [0, 5, 0]], [[0, 1, 0], [10, 0, 0]]),
    ("scatter zeros", written("mul"), [[2, 2, 3], [0, 0, 6]], [[0, 1, 6], [0, 0, 3]]),
    ("scatter 0 first", written("mul"), [[0, 2, 3], [4, 5, 6]], [[20, 1, 6], [0, 0, 3]]),
    ("scatter max", written("max"), [[4, 2, 3], [4, 1, 6]], [[0.5, 1, 0], [0.5, 0, 1]]),
    ("scatter min", written("min"), [[4, 2, 3], [1, 1, 6]], [[0, 1, 1], [0.5, 0.5, 0]]),
]


@pytest.mark.parametrize(
    ("make", "operands", "wanted"), [c[1:] for c in TWO_OPERANDS], ids=[c[0] for c in TWO_OPERANDS]
)
def test_corners_of_two_operands(
    make: Make, operands: list[list[float]], wanted: list[list[float]]
) -> None:
    np.testing.assert_allclose(slopes(make, *operands), wanted, rtol=1e-6)


@pytest.mark.parametrize("matrix", [[[1, 2], [2, 4]], [[0, 0], [0, 0]], [[0, 3], [0, 0]]])
def test_the_determinant_of_a_singular_matrix_has_its_cofactors(matrix: list[list[float]]) -> None:
    """PyTorch gives zeros for the first one, which are wrong."""
    (a, b), (c, d) = matrix
    np.testing.assert_array_equal(slopes(ops.Determinant, matrix)[0], [[d, -c], [-b, a]])


def test_conversions_between_floats_pass_gradients_on() -> None:
    builder = Builder()
    x = builder.input("x", "float32<2>")
    narrow = builder.emit(ops.ConvertTo(x, ElementKind.FLOAT16))
    total = builder.emit(ops.ReduceSum(builder.emit(ops.Mul(narrow, narrow)), (0,), False))
    builder.save(builder.emit(ops.ConvertTo(total, ElementKind.FLOAT64)), "loss")
    function = differentiate(builder.function(), ["x"])
    assert function.outputs[1].type == x.type
    found = evaluate(function, {"x": np.array([1, -3], np.float32)})
    np.testing.assert_array_equal(found["d_x"], [2, -6])


def test_no_number_is_converted_on_the_way_through_integers() -> None:
    """What goes through whole numbers has no gradient, and the rest is differentiated."""
    builder = Builder()
    x = builder.input("x", "float32<2>")
    whole = builder.emit(ops.ConvertTo(x, ElementKind.INT32))
    again = builder.emit(ops.ConvertTo(whole, ElementKind.FLOAT32))
    builder.save(builder.emit(ops.ReduceSum(builder.emit(ops.Mul(x, again)), (0,), False)), "loss")
    found = evaluate(
        differentiate(builder.function(), ["x"]), {"x": np.array([1.5, -3.5], np.float32)}
    )
    np.testing.assert_array_equal(found["d_x"], [1, -3])
