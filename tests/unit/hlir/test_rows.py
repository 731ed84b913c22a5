"""Samples of a batch are independent where the operators show it, and never where they are not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from glow_nb.base.types import ElementKind, TensorType
from glow_nb.formats.onnx.importer import import_onnx
from glow_nb.hlir.graph import Function
from glow_nb.hlir.rows import Rows, keeps_rows_apart, rows_of
from glow_nb.runtime.serve.rows import dependence_of_rows
from tests.unit.formats.onnx.importer.models import model, value, weight

RNG = np.random.default_rng(0)
WEIGHTS = {
    "w": RNG.normal(size=(6, 6)).astype(np.float32),
    "filter": RNG.normal(size=(4, 4, 3, 3)).astype(np.float32),
    "image": np.array([-1, 4, 6, 6]),
    "pair": np.array([-1, 6]),
    "tokens": np.array([-1, 4, 6]),
    "zero": np.array(0),
    "one": np.array(1),
    "table": RNG.normal(size=(9, 6)).astype(np.float32),
    "class": RNG.normal(size=(1, 1, 6)).astype(np.float32),
    "begin": np.array([1]),
    "end": np.array([3]),
    "ones": np.ones(2, np.int64),
    "vector": RNG.normal(size=6).astype(np.float32),
}
make = helper.make_node


def sized(
    nodes: list[Any], shape: tuple[int, ...], kind: int = TensorProto.FLOAT
) -> list[Function]:
    """Return the graph of *nodes* from ``x`` to ``y`` for a batch of one and of two."""
    weights = [weight(name, array) for name, array in WEIGHTS.items()]
    proto = model(nodes, [value("x", ("batch", *shape), kind)], weights=weights)
    return [import_onnx(proto, shapes={"batch": rows}) for rows in (1, 2)]


APART: dict[str, tuple[list[Any], tuple[int, ...]]] = {
    "elements": ([make("Add", ["x", "vector"], ["a"]), make("Relu", ["a"], ["y"])], (4, 6)),
    "product": ([make("MatMul", ["x", "w"], ["y"])], (4, 6)),
    "convolution": ([make("Conv", ["x", "filter"], ["y"])], (4, 6, 6)),
    "pooling": ([make("MaxPool", ["x"], ["y"], kernel_shape=[2, 2])], (4, 6, 6)),
    "mean": ([make("GlobalAveragePool", ["x"], ["y"])], (4, 6, 6)),
    "softmax": ([make("Softmax", ["x"], ["y"], axis=-1)], (4, 6)),
    "norm": ([make("LayerNormalization", ["x", "vector", "vector"], ["y"])], (4, 6)),
    "rows of tokens": (
        [
            make("Reshape", ["x", "pair"], ["a"]),
            make("Gemm", ["a", "w", "vector"], ["b"]),
            make("Reshape", ["b", "tokens"], ["y"]),
        ],
        (4, 6),
    ),
    "slice": ([make("Slice", ["x", "begin", "end", "begin"], ["y"])], (4, 6)),
    "cut": ([make("Split", ["x"], ["y", "z"], axis=1)], (4, 6)),
    "running sum": ([make("CumSum", ["x", "one"], ["y"])], (4, 6)),
}

SEEN: dict[str, tuple[list[Any], tuple[int, ...]]] = {
    "products of samples": (
        [make("Transpose", ["x"], ["t"], perm=[0, 2, 1]), make("MatMul", ["x", "t"], ["y"])],
        (4, 6),
    ),
    "class token": (
        [
            make("Shape", ["x"], ["s"], end=1),
            make("Concat", ["s", "ones"], ["t"], axis=0),
            make("Expand", ["class", "t"], ["c"]),
            make("Concat", ["c", "x"], ["y"], axis=1),
        ],
        (4, 6),
    ),
    "no rule": ([make("Det", ["x"], ["y"])], (6, 6)),
}
"""What is imported otherwise for one sample than for two, and what no rule knows."""

MIXED: dict[str, tuple[list[Any], tuple[int, ...]]] = {
    "softmax": ([make("Softmax", ["x"], ["y"], axis=0)], (4, 6)),
    "running sum": ([make("CumSum", ["x", "zero"], ["y"])], (4, 6)),
    "mean of the batch": (
        [make("ReduceMean", ["x"], ["m"], axes=[0]), make("Sub", ["x", "m"], ["y"])],
        (6,),
    ),
    "size of the batch": (
        [
            make("Shape", ["x"], ["s"], end=1),
            make("Cast", ["s"], ["n"], to=1),
            make("Div", ["x", "n"], ["y"]),
        ],
        (6,),
    ),
    "place in the batch": (
        [
            make("Shape", ["x"], ["s"], end=1),
            make("Squeeze", ["s"], ["n"]),
            make("Range", ["zero", "n", "one"], ["p"]),
            make("Cast", ["p"], ["f"], to=1),
            make("Unsqueeze", ["f", "ones_axis"], ["c"]),
            make("Add", ["x", "c"], ["y"]),
        ],
        (6,),
    ),
    "products of the batch": (
        [
            make("Transpose", ["x"], ["t"]),
            make("MatMul", ["t", "x"], ["m"]),
            make("MatMul", ["x", "m"], ["y"]),
        ],
        (6,),
    ),
    "backwards": ([make("Slice", ["x", "last", "least", "zeros", "back"], ["y"])], (6,)),
    "samples inside": (
        [
            make("Transpose", ["x"], ["t"]),
            make("Reshape", ["t", "pair"], ["y"]),
        ],
        (6,),
    ),
}
WEIGHTS |= {
    "ones_axis": np.array([1]),
    "last": np.array([-1]),
    "least": np.array([-(2**62)]),
    "zeros": np.array([0]),
    "back": np.array([-1]),
}


@pytest.mark.parametrize("name", APART)
def test_operators_show_that_rows_are_independent(name: str) -> None:
    one, two = sized(*APART[name])
    assert keeps_rows_apart(one, two)
    assert dependence_of_rows(one, two) == ""


@pytest.mark.parametrize("name", MIXED)
def test_rows_that_are_mixed_are_not_shown_to_be_independent(name: str) -> None:
    one, two = sized(*MIXED[name])
    assert not keeps_rows_apart(one, two)
    assert dependence_of_rows(one, two)


def test_rows_of_a_table() -> None:
    nodes = [make("Gather", ["table", "x"], ["y"])]
    assert keeps_rows_apart(*sized(nodes, (4,), TensorProto.INT64))


@pytest.mark.parametrize("name", SEEN)
def test_what_is_not_shown_may_be_seen(name: str) -> None:
    one, two = sized(*SEEN[name])
    assert not keeps_rows_apart(one, two)
    assert dependence_of_rows(one, two) == ""


@pytest.mark.parametrize(
    ("one", "two", "rows"),
    [
        ((1, 3), (2, 3), Rows(0, 1)),
        ((5, 4), (5, 8), Rows(1, 4)),
        ((5, 4), (5, 4), None),
        ((1, 1), (2, 2), None),
        ((1, 3), (3, 3), None),
        ((1,), (2, 1), None),
    ],
)
def test_rows_are_where_sizes_double(
    one: tuple[int, ...], two: tuple[int, ...], rows: Rows | None
) -> None:
    float32 = ElementKind.FLOAT32
    assert rows_of(TensorType(float32, one), TensorType(float32, two)) == rows
