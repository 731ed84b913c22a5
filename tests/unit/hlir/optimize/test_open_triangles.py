"""Triangles of open sizes are what they are recognized as."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np
import pytest

from glow_nb.base.size import Symbol, at
from glow_nb.base.types import ElementKind, TensorType
from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.evaluate import evaluate
from glow_nb.hlir.graph import Node, Value
from glow_nb.hlir.ops.counting import counting, triangle
from glow_nb.hlir.optimize.open_triangles import triangle_of
from glow_nb.hlir.optimize.raise_attention import raise_attention
from glow_nb.hlir.with_sizes import with_sizes

ROWS, COLUMNS = Symbol("rows", 3, 1, 4).size, Symbol("columns", 4, 1, 5).size
COMPARISONS = (ops.Less, ops.LessEqual, ops.Greater, ops.GreaterEqual)
Make = Callable[[Builder], Value]


def _compared(comparison: Callable[[Value, Value], Node], first: int, *, is_swapped: bool) -> Make:
    def make(builder: Builder) -> Value:
        row = builder.emit(ops.Reshape(counting(builder, ROWS, first), (ROWS, 1)))
        column = builder.emit(ops.Reshape(counting(builder, COLUMNS), (1, COLUMNS)))
        operands = (row, column) if is_swapped else (column, row)
        return builder.emit(comparison(*operands))

    return make


def _part(builder: Builder) -> Value:
    table = builder.constant("table", np.tri(9, 9, 1, dtype=np.bool_))
    ends = (ROWS + ROWS, COLUMNS + 1)
    return builder.emit(ops.Slice(table, (ROWS, 1), ends, (1, 1)))


def _inverted(builder: Builder) -> Value:
    made = builder.emit(ops.Not(triangle(builder, ROWS, COLUMNS, COLUMNS - ROWS)))
    single = builder.emit(ops.Reshape(made, (1, ROWS, COLUMNS)))
    return builder.emit(ops.Broadcast(single, (2, ROWS, COLUMNS)))


CASES: dict[str, Make] = {
    f"{comparison.__name__}-{first}-{is_swapped}": _compared(
        comparison, first, is_swapped=is_swapped
    )
    for comparison, first, is_swapped in product(COMPARISONS, (0, 2, ROWS), (False, True))
} | {"a part of a constant": _part, "inverted": _inverted}


@pytest.mark.parametrize("case", CASES)
def test_a_triangle_is_the_one_that_it_is_taken_for(case: str) -> None:
    builder = Builder("triangles")
    # Sizes are those of inputs.
    builder.input("x", TensorType(ElementKind.BOOL, (ROWS, COLUMNS)))
    made = CASES[case](builder)
    found = triangle_of(made)
    assert found is not None
    builder.save(made, "y")
    function = builder.function()
    for rows, columns in product(range(1, 5), range(1, 6)):
        sizes = {"rows": rows, "columns": columns}
        static = with_sizes(function, sizes)
        (seen,) = evaluate(static, {"x": np.zeros((rows, columns), np.bool_)}).values()
        wanted = np.tri(rows, columns, at(found.offset, sizes), dtype=np.bool_) == found.is_lower
        np.testing.assert_array_equal(seen, np.broadcast_to(wanted, seen.shape))


def test_other_comparisons_are_no_triangles() -> None:
    builder = Builder("others")
    row = builder.emit(ops.Reshape(counting(builder, ROWS), (ROWS, 1)))
    twice = builder.emit(ops.Add(row, row))
    column = builder.emit(ops.Reshape(counting(builder, COLUMNS), (1, COLUMNS)))
    assert triangle_of(builder.emit(ops.Less(column, twice))) is None
    assert triangle_of(builder.emit(ops.Equal(column, row))) is None
    assert triangle_of(builder.emit(ops.Less(row, row))) is None
    band = builder.constant(
        "band", np.tri(9, 9, 1, dtype=np.bool_) & ~np.tri(9, 9, -1, dtype=np.bool_)
    )
    part = builder.emit(ops.Slice(band, (0, 0), (ROWS, COLUMNS), (1, 1)))
    assert triangle_of(part) is None


@pytest.mark.parametrize(("hides", "is_causal"), [(-np.inf, True), (-1.0, False)])
def test_what_a_triangle_of_addends_hides_is_causal(hides: float, is_causal: bool) -> None:
    builder = Builder("attention")
    query = builder.input("query", TensorType(ElementKind.FLOAT32, (2, 3, ROWS, 4)))
    key = builder.input("key", TensorType(ElementKind.FLOAT32, (2, 3, 4, ROWS)))
    scores = builder.emit(ops.MatMul(query, key))
    seen = builder.emit(ops.Reshape(triangle(builder, ROWS, ROWS, 0), (1, 1, ROWS, ROWS)))
    zero, low = (builder.number(scores.type, number) for number in (0, hides))
    mask = builder.emit(ops.Select(seen, zero, builder.emit(ops.Broadcast(low, seen.type.shape))))
    shares = builder.emit(ops.Softmax(builder.emit(ops.Add(scores, mask)), axis=3))
    builder.save(builder.emit(ops.MatMul(shares, query)), "y")
    raised = raise_attention(builder.function())
    (attention,) = (node for node in raised.nodes if isinstance(node, ops.Attention))
    assert (attention.causal, attention.mask is None) == (is_causal, is_causal)
