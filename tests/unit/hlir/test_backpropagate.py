"""Operators without a gradient rule are differentiated as what they lower to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from typing_extensions import override

import glow_nb
from glow_nb.base.errors import GradientError
from glow_nb.base.types import Array, TensorType
from glow_nb.hlir import ops
from glow_nb.hlir.differentiate import differentiate
from glow_nb.hlir.evaluate import evaluate
from glow_nb.hlir.graph import NODES, Function, Node, Value, define_node
from glow_nb.hlir.ops.families import FLOATS, fitted, require_kind
from glow_nb.hlir.rewrite import Rewriter
from glow_nb.hlir.rules import LOWERINGS, WITHOUT_GRADIENT, lowers, no_gradient


@pytest.fixture
def sum_of_products() -> Iterator[type[Node]]:
    """Define an operator of a user that lowers to others, and forget it again."""

    @define_node("sum_of_products_for_the_test")
    class SumOfProducts(Node):
        """``first * second + all others``, and twice that."""

        first: Value
        second: Value
        others: tuple[Value, ...]

        @override
        def infer_types(self) -> tuple[TensorType, ...]:
            require_kind(self, "first", self.first.type, FLOATS)
            return self.first.type, self.first.type

        @override
        def evaluate(
            self, first: Array, second: Array, others: tuple[Array, ...]
        ) -> tuple[Array, Array]:
            total = fitted(sum(others, first * second), self.result_types[0])
            return total, 2 * total

    @lowers(SumOfProducts)
    def lower_sum_of_products(
        node: SumOfProducts, rewriter: Rewriter
    ) -> tuple[Value, Value] | None:
        if not node.others:
            return None
        total: Value = rewriter.emit(ops.Mul(node.first, node.second))
        for other in node.others:
            total = rewriter.emit(ops.Add(total, other))
        two = rewriter.constant("two", np.full((1,) * total.type.rank, 2, np.float32))
        assert rewriter.use_count(node.first)  # a rule gets all that a lowering pass has
        return total, rewriter.emit(ops.Mul(total, two))

    yield SumOfProducts
    del NODES[SumOfProducts.opcode], LOWERINGS[SumOfProducts]


def loss_of(node: Any, count: int) -> Function:
    builder = glow_nb.Builder()
    x, y, two = (builder.input(name, "float32<4>") for name in ("x", "y", "two"))
    made = builder.emit(node(x, y, (two, y)[:count]))
    again = builder.emit(node(made.results[1], x, (two,)))
    builder.save(builder.emit(ops.ReduceSum(again.results[0], (0,), False)), "loss")
    return builder.function()


FEEDS = {
    "x": np.array([1, 2, 3, 4], np.float32),
    "y": np.array([5, 0, -1, 2], np.float32),
    "two": np.array([0, 1, 0, 7], np.float32),
}


def test_a_composition_has_the_gradients_of_what_it_lowers_to(sum_of_products: type[Node]) -> None:
    """``2 * (x * y + two + y) * x + two``."""
    function = differentiate(loss_of(sum_of_products, 2), ["x", "y", "two"])
    names = [value.name for value in (*function.nodes, *function.constants)]
    assert len(set(names)) == len(names)
    x, y, two = FEEDS.values()
    found = glow_nb.compile(function, backend="interpreter").run(FEEDS)
    np.testing.assert_array_equal(found["d_x"], 4 * x * y + 2 * (two + y))
    np.testing.assert_array_equal(found["d_y"], 2 * x * x + 2 * x)
    np.testing.assert_array_equal(found["d_two"], 2 * x + 1)


def test_a_lowering_that_declines_gives_no_gradient(sum_of_products: type[Node]) -> None:
    with pytest.raises(GradientError, match=r"sum_of_products.*its lowering declines it"):
        differentiate(loss_of(sum_of_products, 0), ["x"])


def test_what_is_said_to_have_no_gradient_has_none(sum_of_products: type[Node]) -> None:
    no_gradient("it is for a test", sum_of_products)
    with pytest.raises(GradientError, match="it is for a test"):
        differentiate(loss_of(sum_of_products, 2), ["x"])
    del WITHOUT_GRADIENT[sum_of_products]


def gradients_of_attention(mask: Array | None, x: Array, **attributes: object) -> dict[str, Array]:
    """Return the gradients of the sum of an attention of *x* to itself."""
    builder = glow_nb.Builder()
    value = builder.input("x", TensorType.of(x))
    hidden = None if mask is None else builder.constant("mask", mask)
    node = builder.emit(ops.Attention(value, value, value, hidden, **attributes))  # type: ignore[arg-type]
    axes = tuple(range(4))
    builder.save(builder.emit(ops.ReduceSum(builder.emit(ops.Mul(node, node)), axes)), "loss")
    return evaluate(differentiate(builder.function(), ["x"]), {"x": x})


@pytest.mark.parametrize("masked_rows", ["zero", "zero_for_nan"])
@pytest.mark.parametrize("is_bool", [False, True])
def test_queries_that_see_nothing_have_gradients(masked_rows: str, is_bool: bool) -> None:
    x = np.random.default_rng(0).standard_normal((1, 2, 3, 4)).astype(np.float32)
    visible = np.array([[True, True, False], [False, False, False], [True, True, True]])
    mask = visible if is_bool else np.where(visible, 0, -np.inf).astype(np.float32)
    found = gradients_of_attention(mask[None, None], x, scale=0.5, masked_rows=masked_rows)
    assert all(np.isfinite(array).all() for array in found.values())
    # A query without keys is as one that is not there.
    seen = {0: [0, 1], 2: [0, 1, 2]}
    loss = 0.0
    for query, keys in seen.items():
        scores = 0.5 * np.einsum("hd,hkd->hk", x[0, :, query], x[0][:, keys])
        weights = np.exp(scores) / np.exp(scores).sum(axis=-1, keepdims=True)
        loss += float((np.einsum("hk,hkd->hd", weights, x[0][:, keys]) ** 2).sum())
    np.testing.assert_allclose(found["loss"].item(), loss, rtol=1e-5)


def test_attention_of_half_floats_has_gradients() -> None:
    x = np.random.default_rng(0).standard_normal((1, 2, 3, 4))
    wide = gradients_of_attention(None, x.astype(np.float32), scale=0.5)
    half = gradients_of_attention(None, x.astype(np.float16), scale=0.5)
    assert half["d_x"].dtype == np.float16
    np.testing.assert_allclose(half["d_x"], wide["d_x"], rtol=0.02, atol=0.02)
