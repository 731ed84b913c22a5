"""Corners of single passes that golden cases do not reach."""

from __future__ import annotations

import numpy as np
import pytest

from glow_nb.base.conversion import converted
from glow_nb.base.size import Symbol
from glow_nb.base.types import Array, ElementKind
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Function
from glow_nb.hlir.index_ranges import ascending, count_of, index_range, taken_of, whole
from glow_nb.hlir.ops import Add, ConvertTo, MatMul, MaxPool, Pad, Relu
from glow_nb.hlir.ops.families import keeps_every_number
from glow_nb.hlir.optimize import GRAPH_PASSES


def opcodes(function: Function) -> list[str]:
    return [node.opcode for node in function.nodes if node.opcode != "save"]


def optimized(b: Builder, *passes: str) -> Function:
    return GRAPH_PASSES.run(b.function(), (*passes, "eliminate_dead_nodes"))


@pytest.mark.parametrize(
    ("indices", "places"),
    [
        (range(10), range(2, 9, 3)),
        (range(9, -1, -2), range(4, -1, -2)),
        (range(0, 10, 3), range(3, 4)),
        (range(4), range(3, -1, -1)),
        (range(5), range(2, 2)),
    ],
)
def test_a_slice_of_a_slice_takes_the_same_places(indices: range, places: range) -> None:
    taken = taken_of(indices, places)
    assert isinstance(taken, range)
    assert list(taken) == [indices[place] for place in places]
    assert taken.stop >= -1


def test_a_slice_of_all_of_an_open_slice_is_that_slice() -> None:
    n = Symbol("n", 7).size
    later = index_range(1, n)
    assert taken_of(later, whole(n - 1)) == later
    assert taken_of(whole(n), later) == later
    assert taken_of(later, later) is None
    assert count_of(index_range(n - 1, -1, -2)) == (n + 1) // 2
    assert ascending(index_range(n - 1, -1, -1)) == whole(n)


@pytest.mark.parametrize("source", list(ElementKind))
@pytest.mark.parametrize("target", list(ElementKind))
def test_a_kind_that_keeps_every_number_gives_the_extremes_back(
    source: ElementKind, target: ElementKind
) -> None:
    if not keeps_every_number(source, target):
        return
    numbers = extremes(source)
    back = converted(converted(numbers, target), source)
    np.testing.assert_array_equal(back, numbers)


def extremes(kind: ElementKind) -> Array:
    if kind is ElementKind.BOOL:
        return np.array([False, True])
    if kind.is_storage:
        numbers = converted(np.arange(256, dtype=np.uint8).view(kind.dtype), ElementKind.FLOAT32)
        return converted(numbers[np.isfinite(numbers)], kind)
    if kind.is_float:
        return np.array([1 / 3, -60000.0, 1e-4], kind.dtype)
    limits = np.iinfo(kind.value)
    return np.array([limits.min, limits.max, limits.max - 1], kind.dtype)


def test_zeros_pad_no_maximum_whose_window_sees_nothing_else() -> None:
    b = Builder()
    x = b.emit(Relu(b.input("x", "float32<1 x 4 x 1>")))
    padded = b.emit(Pad(x, pads=(0, 2, 0, 0, 0, 0), mode="constant", value=0.0))
    pool = MaxPool(padded, kernel=(2,), stride=(1,), pads=(0, 0), dilation=(1,))
    b.save(b.emit(pool), "y")
    assert opcodes(optimized(b, "fold_pads")) == ["relu", "pad", "max_pool"]


def test_a_fully_connected_layer_needs_one_row_for_all() -> None:
    b = Builder()
    product = b.emit(MatMul(b.input("x", "float32<2 x 3>"), b.input("w", "float32<3 x 2>")))
    b.save(b.emit(Add(product, b.input("c", "float32<2 x 1>"))), "y")
    assert opcodes(optimized(b, "raise_fully_connected")) == ["mat_mul", "add"]


@pytest.mark.parametrize(("kind", "folds"), [("int8", True), ("uint8", True), ("bool", False)])
def test_weights_are_widened_when_compiling_and_masks_are_not(kind: str, folds: bool) -> None:
    b = Builder("main")
    x = b.input("x", "float32<1024 x 2048>")
    stored = b.constant("stored", np.ones((1024, 2048), kind))
    wide = b.emit(ConvertTo(stored, kind=ElementKind.FLOAT32))
    b.save(b.emit(Add(x, wide)), "y")
    wanted = ["add"] if folds else ["convert_to", "add"]
    assert opcodes(optimized(b, "fold_constants")) == wanted
