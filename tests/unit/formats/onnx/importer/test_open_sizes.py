"""Models imported with their open sizes as symbols."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import glow_nb
from glow_nb.base.errors import GlowWarning, ModelError
from glow_nb.base.size import MAX_SIZE
from glow_nb.hlir.parse import parse_function
from glow_nb.hlir.print import print_function
from tests.unit.formats.onnx.importer.open_models import Shape, floats, loaded, model_of, node_of

ENCODER = model_of(
    [
        node_of("Shape", "x", "shape"),
        node_of("Gather", "shape zero", "batch", axis=0),
        node_of("Gather", "shape one", "length", axis=0),
        node_of("Unsqueeze", "batch first", "batches"),
        node_of("Unsqueeze", "length first", "lengths"),
        node_of("Slice", "table begin lengths along", "places"),
        node_of("Add", "x places", "sum"),
        node_of("Concat", "batches lengths heads", "split", axis=0),
        node_of("Reshape", "sum split", "parts"),
        node_of("Transpose", "parts", "q", perm=[0, 2, 1, 3]),
        node_of("Transpose", "parts", "k", perm=[0, 2, 3, 1]),
        node_of("MatMul", "q k", "scores"),
        node_of("Range", "zero length one", "steps"),
        node_of("Unsqueeze", "steps first", "row"),
        node_of("Unsqueeze", "steps along", "column"),
        node_of("LessOrEqual", "row column", "seen"),
        node_of("Where", "seen scores low", "masked"),
        node_of("Softmax", "masked", "shares", axis=-1),
        node_of("MatMul", "shares q", "mixed"),
        node_of("Transpose", "mixed", "back", perm=[0, 2, 1, 3]),
        node_of("Reshape", "back whole", "y"),
    ],
    {"x": ("batch", "length", 8)},
    {
        "zero": np.int64(0),
        "one": np.int64(1),
        "first": [0],
        "along": [1],
        "begin": [0],
        "table": floats(1, 64, 8),
        "heads": [2, 4],
        "whole": [0, 0, 8],
        "low": np.float32(-1e4),
    },
)
IMAGES = model_of(
    [
        node_of("Conv", "x w", "half", strides=[2, 2], pads=[1, 1, 1, 1]),
        node_of("MaxPool", "half", "quarter", kernel_shape=[2, 2], strides=[2, 2]),
        node_of("ConvTranspose", "quarter v", "up", strides=[2, 2]),
        node_of("Concat", "up half", "both", axis=1),
        node_of("GlobalAveragePool", "both", "mean"),
        node_of("Flatten", "mean", "y"),
    ],
    {"x": ("?", 3, None, None)},
    {"w": floats(4, 3, 3, 3), "v": floats(4, 4, 2, 2)},
)
CACHE = model_of(
    [
        node_of("Concat", "past new", "keys", axis=1),
        node_of("Transpose", "keys", "turned", perm=[0, 2, 1]),
        node_of("MatMul", "new turned", "scores"),
        node_of("Softmax", "scores", "shares", axis=-1),
        node_of("MatMul", "shares keys", "y"),
    ],
    {"past": ("batch", "past", 4), "new": ("batch", 1, 4)},
    {},
)
TRIANGLES = model_of(
    [
        node_of("Transpose", "x", "turned", perm=[1, 0]),
        node_of("MatMul", "x turned", "products"),
        node_of("Trilu", "products one", "upper", upper=1),
        node_of("Trilu", "products one", "lower", upper=0),
        node_of("Sub", "upper lower", "y"),
    ],
    {"x": ("length", 4)},
    {"one": np.int64(1)},
)


@pytest.mark.parametrize(
    ("model", "sizes", "output"),
    [
        (
            ENCODER,
            [{"x": (1, 1, 8)}, {"x": (2, 7, 8)}, {"x": (1, 64, 8)}],
            "float32<batch x length x 8>",
        ),
        (IMAGES, [{"x": (1, 3, 16, 8)}, {"x": (2, 3, 11, 20)}], "float32<x_0 x 8>"),
        (
            CACHE,
            [{"past": (1, 1, 4), "new": (1, 1, 4)}, {"past": (2, 5, 4), "new": (2, 1, 4)}],
            "float32<batch x 1 x 4>",
        ),
        (TRIANGLES, [{"x": (1, 4)}, {"x": (7, 4)}], "float32<length x length>"),
    ],
)
def test_open_sizes_stay_open_and_hold_for_all(
    model: onnx.ModelProto, sizes: list[dict[str, tuple[int, ...]]], output: str
) -> None:
    function = loaded(model)
    assert [str(value.type) for value in function.outputs] == [output]
    for shapes in sizes:
        static = glow_nb.load(model, shapes=shapes)
        rng = np.random.default_rng(0)
        feeds = {name: rng.standard_normal(s, np.float32) for name, s in shapes.items()}
        found, wanted = glow_nb.evaluate(function, feeds), glow_nb.evaluate(static, feeds)
        assert np.array_equal(found["y"], wanted["y"])


def test_a_range_leaves_out_what_the_model_refuses() -> None:
    function = loaded(ENCODER)
    assert not function.guards
    assert [symbol.bounds for symbol in function.sizes] == [(1, MAX_SIZE), (1, 64)]
    (batch, height, width) = loaded(IMAGES).sizes
    assert (batch.low, height.low, width.low) == (1, 3, 3)


def test_windows_over_rounded_sizes_need_no_guard() -> None:
    pool = node_of("MaxPool", "x", "y", kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1)
    model = model_of([pool], {"x": (1, 2, "h", "w")}, {})
    function = glow_nb.optimize(loaded(model))
    assert not function.guards
    for size in ((3, 5), (6, 4)):
        x = np.random.default_rng(0).standard_normal((1, 2, *size), np.float32)
        static = glow_nb.load(model, shapes={"x": x.shape})
        found, wanted = (glow_nb.evaluate(f, {"x": x})["y"] for f in (function, static))
        assert np.array_equal(found, wanted)


def test_what_holds_for_some_sizes_is_a_guard() -> None:
    """A slice takes fewer elements of a smaller axis: for that the graph is another one."""
    weights = {"begin": [0], "end": [10], "axes": [0]}
    model = model_of([node_of("Slice", "x begin end axes", "y")], {"x": ("n",)}, weights)
    assert [str(guard) for guard in loaded(model).guards] == ["n >= 10"]


def test_axes_that_the_model_takes_for_the_same_are_the_same() -> None:
    nodes = [
        node_of("Concat", "past new", "keys", axis=1),
        node_of("Mul", "keys mask", "seen"),
        node_of("ReduceSum", "seen axes", "sum", keepdims=0),
        node_of("Add", "sum shift", "y"),
    ]
    inputs = {
        "past": ("b", "past", 4),
        "new": ("b", "seq", 4),
        "mask": ("b2", "total", 1),
        "shift": ("b3", 4),
    }
    function = loaded(model_of(nodes, inputs, {"axes": [1]}))
    assert [str(value.type) for value in function.inputs] == [
        "float32<b x past x 4>",
        "float32<b x seq x 4>",
        "float32<b x past + seq x 1>",
        "float32<b x 4>",
    ]
    assert not function.guards


def test_dimensions_may_be_called_by_sums_of_others() -> None:
    model = model_of(
        [node_of("Relu", "x", "y")], {"x": ("b", "past + new", 2), "z": ("past", "2*b")}, {}
    )
    model.graph.input.append(
        helper.make_tensor_value_info("v", TensorProto.FLOAT, ["new", "a - b"])
    )
    assert [str(value.type) for value in loaded(model).inputs] == [
        "float32<b x new + past x 2>",
        "float32<past x 2*b>",
        "float32<new x v_1>",
    ]


@pytest.mark.parametrize(
    ("equation", "output"), [("...ii->...i", "float32<b x n>"), ("...ii", "float32<b>")]
)
def test_a_diagonal_of_open_axes(equation: str, output: str) -> None:
    function = loaded(
        model_of([node_of("Einsum", "x", "y", equation=equation)], {"x": ("b", "n", "m")}, {})
    )
    assert [str(value.type) for value in function.outputs] == [output]
    x = np.random.default_rng(0).standard_normal((2, 3, 3), np.float32)
    found = glow_nb.evaluate(function, {"x": x})["y"]
    assert np.allclose(found, np.einsum(equation, x), rtol=1e-6)


@pytest.mark.parametrize(
    ("node", "shape", "weights"),
    [
        (node_of("Squeeze", "x axes", "y"), ("n", 3), {"axes": [0]}),
        (node_of("Split", "x sizes", "y", axis=0), ("n", 3), {"sizes": [1]}),
    ],
)
def test_a_size_that_can_only_be_one_number_is_that(
    node: onnx.NodeProto, shape: Shape, weights: dict[str, object]
) -> None:
    with pytest.warns(GlowWarning, match=r"size 'n' is made 1: .*node 'y'"):
        function = loaded(model_of([node], {"x": shape}, weights))
    assert [str(value.type) for value in function.inputs] == ["float32<1 x 3>"]


def test_small_examples_do_not_fit_every_model() -> None:
    node = node_of("AveragePool", "x", "y", kernel_shape=[99])
    function = loaded(model_of([node], {"x": ("b", 2, "n")}, {}))
    assert [symbol.declaration for symbol in function.sizes] == [
        f"b in 1..{MAX_SIZE} like 256",
        f"n in 99..{MAX_SIZE} like 512",
    ]


def test_examples_in_a_range_can_be_halved() -> None:
    halves = [node_of("Conv", "x w", "half", strides=[2]), node_of("Conv", "x w", "same")]
    nodes = [
        *halves,
        node_of("ConvTranspose", "half v", "up", strides=[2]),
        node_of("Add", "same up", "y"),
    ]
    model = model_of(nodes, {"x": (1, 1, "n")}, {"w": floats(1, 1, 1), "v": floats(1, 1, 2)})
    net = glow_nb.compile(model, sizes={"n": (99, 500)}, backend="interpreter")
    x = np.ones((1, 1, 100), np.float32)
    assert net.run(x=x)["y"].shape == x.shape


def test_a_model_that_fits_no_example_is_told_with_the_first_ones() -> None:
    model = model_of([node_of("Conv", "x w", "y")], {"x": ("b", 3, "n")}, {"w": floats(2, 4, 3)})
    with pytest.raises(ModelError, match=r"node 'y' \(Conv\).*with b = 32, n = 64, as.*hints="):
        loaded(model)


def test_sizes_are_called_by_words_that_read_back() -> None:
    shape = ("int8", "scale", "a", "int8_size", "a b", "n" * 99)
    function = loaded(model_of([node_of("Relu", "x", "y")], {"x": shape}, {}))
    names = [symbol.name for symbol in function.sizes]
    assert names == ["int8_size", "scale_size", "a", "int8_size_2", "x_4", "n" * 64]
    text = print_function(function)
    assert print_function(parse_function(text)) == text


@pytest.mark.parametrize("sizes", [{}, {"length": (1, 512)}])
def test_a_table_of_few_rows_narrows_a_range_that_is_given(sizes: dict[str, Any]) -> None:
    """The examples of sizes that are tried last are small, however large the range is."""
    nodes = [
        node_of("Shape", "x", "length", start=0, end=1),
        node_of("Slice", "table zero length zero", "rows"),
        node_of("Add", "x rows", "y"),
    ]
    model = model_of(nodes, {"x": ("length", 3)}, {"zero": [0]})
    model.graph.initializer.append(numpy_helper.from_array(np.ones((20, 3), np.float32), "table"))
    net = glow_nb.compile(model, sizes=sizes, backend="interpreter")
    assert isinstance(net, glow_nb.DynamicNetwork)
    (symbol,) = net.variants[0].border.symbols
    assert symbol.bounds == (1, 20)


@pytest.mark.parametrize("sizes", [{}, {"h": (32, 1024), "w": (32, 1024)}])
def test_a_layer_of_fixed_width_gets_one_size_for_all_in_ranges(sizes: dict[str, Any]) -> None:
    nodes = [
        node_of("AveragePool", "x", "pooled", kernel_shape=[32, 32], strides=[32, 32]),
        node_of("Flatten", "pooled", "flat"),
        node_of("MatMul", "flat weights", "y"),
    ]
    model = model_of(nodes, {"x": (1, 1, "h", "w")}, {})
    weights = numpy_helper.from_array(np.ones((49, 2), np.float32), "weights")
    model.graph.initializer.append(weights)
    net = glow_nb.compile(model, sizes=sizes, backend="interpreter")
    assert isinstance(net, glow_nb.DynamicNetwork)
    found = net.run(x=np.ones((1, 1, 224, 224), np.float32))["y"]
    assert np.array_equal(found, np.full((1, 2), 49, np.float32))
