"""Gathers of rows instead of those of elements keep every element, wrong indices included."""

from __future__ import annotations

import numpy as np
import pytest

from glow_nb.base.types import Array, ElementKind, TensorType
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.evaluate import evaluate
from glow_nb.hlir.graph import Function, Value
from glow_nb.hlir.ops import Broadcast, GatherElements, GatherND
from glow_nb.hlir.optimize import GRAPH_PASSES

Shape = tuple[int, ...]


def gathering(shape: Shape, one: Shape, wanted: Shape, axis: int, *, is_known: bool) -> Function:
    """Return a gather by indices of the shape *one*, which are repeated to that *wanted*."""
    size = shape[axis]
    places = np.random.default_rng(0).integers(-size - 2, size + 2, one)
    builder = Builder("main")
    x = builder.input("x", TensorType(ElementKind.FLOAT32, shape))
    indices: Value
    if is_known:
        indices = builder.constant("i", np.broadcast_to(places, wanted))
    else:
        own = builder.input("i", TensorType(ElementKind.INT64, one))
        indices = builder.emit(Broadcast(own, wanted))
    builder.save(builder.emit(GatherElements(x, indices, axis=axis)), "y")
    return builder.function()


@pytest.mark.parametrize("is_known", [False, True])
@pytest.mark.parametrize(
    ("shape", "one", "wanted", "axis", "is_row"),
    [
        ((2, 9, 8), (2, 5, 1), (2, 5, 8), 1, True),
        ((2, 9, 8), (1, 5, 1), (2, 5, 8), 1, True),
        ((3, 9, 8), (2, 5, 1), (2, 5, 8), 1, True),
        ((9, 3, 8), (7, 3, 1), (7, 3, 8), 0, True),
        ((9, 3, 8), (7, 1, 1), (7, 3, 8), 0, True),
        ((9, 5, 2, 3), (7, 4, 1, 1), (7, 4, 2, 3), 0, True),
        ((2, 9, 8), (2, 5, 8), (2, 5, 8), 1, False),
        ((2, 9, 8), (2, 5, 1), (2, 5, 6), 1, False),
        ((2, 9, 3), (2, 5, 1), (2, 5, 3), 1, False),
        ((2, 9, 8), (2, 9, 1), (2, 9, 8), 2, False),
    ],
    ids=str,
)
def test_rows_are_gathered_where_indices_are_repeated(
    shape: Shape, one: Shape, wanted: Shape, axis: int, is_row: bool, is_known: bool
) -> None:
    function = gathering(shape, one, wanted, axis, is_known=is_known)
    found = GRAPH_PASSES.run(function, ("gather_rows",))
    assert any(isinstance(node, GatherND) for node in found.nodes) is is_row
    rng = np.random.default_rng(1)
    feeds: dict[str, Array] = {"x": rng.standard_normal(shape).astype(np.float32)}
    if not is_known:
        feeds["i"] = rng.integers(-shape[axis] - 2, shape[axis] + 2, one)
    np.testing.assert_array_equal(evaluate(found, feeds)["y"], evaluate(function, feeds)["y"])
