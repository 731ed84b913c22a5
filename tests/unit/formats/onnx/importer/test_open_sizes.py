"""Models imported with their open sizes as symbols."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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

Shape = Sequence[int | str | None]


def _model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Shape],
    weights: Mapping[str, object],
    kind: int = TensorProto.FLOAT,
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "model",
        [helper.make_tensor_value_info(name, kind, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info("y", TensorProto.UNDEFINED, None)],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


def _random(*shape: int) -> object:
    return np.random.default_rng(0).standard_normal(shape, np.float32)


def _node(op: str, inputs: str, output: str, **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(op, inputs.split(), [output], **attributes)


ENCODER = _model(
    [
        _node("Shape", "x", "shape"),
        _node("Gather", "shape zero", "batch", axis=0),
        _node("Gather", "shape one", "length", axis=0),
        _node("Unsqueeze", "batch first", "batches"),
        _node("Unsqueeze", "length first", "lengths"),
        _node("Slice", "table begin lengths along", "places"),
        _node("Add", "x places", "sum"),
        _node("Concat", "batches lengths heads", "split", axis=0),
        _node("Reshape", "sum split", "parts"),
        _node("Transpose", "parts", "q", perm=[0, 2, 1, 3]),
        _node("Transpose", "parts", "k", perm=[0, 2, 3, 1]),
        _node("MatMul", "q k", "scores"),
        _node("Range", "zero length one", "steps"),
        _node("Unsqueeze", "steps first", "row"),
        _node("Unsqueeze", "steps along", "column"),
        _node("LessOrEqual", "row column", "seen"),
        _node("Where", "seen scores low", "masked"),
        _node("Softmax", "masked", "shares", axis=-1),
        _node("MatMul", "shares q", "mixed"),
        _node("Transpose", "mixed", "back", perm=[0, 2, 1, 3]),
        _node("Reshape", "back whole", "y"),
    ],
    {"x": ("batch", "length", 8)},
    {
        "zero": np.int64(0),
        "one": np.int64(1),
        "first": [0],
        "along": [1],
        "begin": [0],
        "table": _random(1, 64, 8),
        "heads": [2, 4],
        "whole": [0, 0, 8],
        "low": np.float32(-1e4),
    },
)
IMAGES = _model(
    [
        _node("Conv", "x w", "half", strides=[2, 2], pads=[1, 1, 1, 1]),
        _node("MaxPool", "half", "quarter", kernel_shape=[2, 2], strides=[2, 2]),
        _node("ConvTranspose", "quarter v", "up", strides=[2, 2]),
        _node("Concat", "up half", "both", axis=1),
        _node("GlobalAveragePool", "both", "mean"),
        _node("Flatten", "mean", "y"),
    ],
    {"x": ("?", 3, None, None)},
    {"w": _random(4, 3, 3, 3), "v": _random(4, 4, 2, 2)},
)
CACHE = _model(
    [
        _node("Concat", "past new", "keys", axis=1),
        _node("Transpose", "keys", "turned", perm=[0, 2, 1]),
        _node("MatMul", "new turned", "scores"),
        _node("Softmax", "scores", "shares", axis=-1),
        _node("MatMul", "shares keys", "y"),
    ],
    {"past": ("batch", "past", 4), "new": ("batch", 1, 4)},
    {},
)
TRIANGLES = _model(
    [
        _node("Transpose", "x", "turned", perm=[1, 0]),
        _node("MatMul", "x turned", "products"),
        _node("Trilu", "products one", "upper", upper=1),
        _node("Trilu", "products one", "lower", upper=0),
        _node("Sub", "upper lower", "y"),
    ],
    {"x": ("length", 4)},
    {"one": np.int64(1)},
)


def _loaded(model: onnx.ModelProto) -> glow_nb.Function:
    loaded = glow_nb.load(model, open_sizes=True)
    assert isinstance(loaded, glow_nb.Function)
    return loaded


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
    function = _loaded(model)
    assert [str(value.type) for value in function.outputs] == [output]
    for shapes in sizes:
        static = glow_nb.load(model, shapes=shapes)
        assert isinstance(static, glow_nb.Function)
        rng = np.random.default_rng(0)
        feeds = {name: rng.standard_normal(s, np.float32) for name, s in shapes.items()}
        found, wanted = glow_nb.evaluate(function, feeds), glow_nb.evaluate(static, feeds)
        assert np.array_equal(found["y"], wanted["y"])


def test_a_range_leaves_out_what_the_model_refuses() -> None:
    function = _loaded(ENCODER)
    assert not function.guards
    assert [symbol.bounds for symbol in function.sizes] == [(1, MAX_SIZE), (1, 64)]
    (batch, height, width) = _loaded(IMAGES).sizes
    assert (batch.low, height.low, width.low) == (1, 3, 3)


def test_windows_over_rounded_sizes_need_no_guard() -> None:
    pool = _node("MaxPool", "x", "y", kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1)
    model = _model([pool], {"x": (1, 2, "h", "w")}, {})
    function = glow_nb.optimize(_loaded(model))
    assert not function.guards
    for size in ((3, 5), (6, 4)):
        x = np.random.default_rng(0).standard_normal((1, 2, *size), np.float32)
        static = glow_nb.load(model, shapes={"x": x.shape})
        assert isinstance(static, glow_nb.Function)
        found, wanted = (glow_nb.evaluate(f, {"x": x})["y"] for f in (function, static))
        assert np.array_equal(found, wanted)


def test_what_holds_for_some_sizes_is_a_guard() -> None:
    """A slice takes fewer elements of a smaller axis: for that the graph is another one."""
    weights = {"begin": [0], "end": [10], "axes": [0]}
    model = _model([_node("Slice", "x begin end axes", "y")], {"x": ("n",)}, weights)
    assert [str(guard) for guard in _loaded(model).guards] == ["n >= 10"]


def test_axes_that_the_model_takes_for_the_same_are_the_same() -> None:
    nodes = [
        _node("Concat", "past new", "keys", axis=1),
        _node("Mul", "keys mask", "seen"),
        _node("ReduceSum", "seen axes", "sum", keepdims=0),
        _node("Add", "sum shift", "y"),
    ]
    inputs = {
        "past": ("b", "past", 4),
        "new": ("b", "seq", 4),
        "mask": ("b2", "total", 1),
        "shift": ("b3", 4),
    }
    function = _loaded(_model(nodes, inputs, {"axes": [1]}))
    assert [str(value.type) for value in function.inputs] == [
        "float32<b x past x 4>",
        "float32<b x seq x 4>",
        "float32<b x past + seq x 1>",
        "float32<b x 4>",
    ]
    assert not function.guards


def test_dimensions_may_be_called_by_sums_of_others() -> None:
    model = _model(
        [_node("Relu", "x", "y")], {"x": ("b", "past + new", 2), "z": ("past", "2*b")}, {}
    )
    model.graph.input.append(
        helper.make_tensor_value_info("v", TensorProto.FLOAT, ["new", "a - b"])
    )
    assert [str(value.type) for value in _loaded(model).inputs] == [
        "float32<b x new + past x 2>",
        "float32<past x 2*b>",
        "float32<new x v_1>",
    ]


@pytest.mark.parametrize(
    ("equation", "output"), [("...ii->...i", "float32<b x n>"), ("...ii", "float32<b>")]
)
def test_a_diagonal_of_open_axes(equation: str, output: str) -> None:
    function = _loaded(
        _model([_node("Einsum", "x", "y", equation=equation)], {"x": ("b", "n", "m")}, {})
    )
    assert [str(value.type) for value in function.outputs] == [output]
    x = np.random.default_rng(0).standard_normal((2, 3, 3), np.float32)
    found = glow_nb.evaluate(function, {"x": x})["y"]
    assert np.allclose(found, np.einsum(equation, x), rtol=1e-6)


@pytest.mark.parametrize(
    ("node", "shape", "weights"),
    [
        (_node("Squeeze", "x axes", "y"), ("n", 3), {"axes": [0]}),
        (_node("Split", "x sizes", "y", axis=0), ("n", 3), {"sizes": [1]}),
    ],
)
def test_a_size_that_can_only_be_one_number_is_that(
    node: onnx.NodeProto, shape: Shape, weights: dict[str, object]
) -> None:
    with pytest.warns(GlowWarning, match=r"size 'n' is made 1: .*node 'y'"):
        function = _loaded(_model([node], {"x": shape}, weights))
    assert [str(value.type) for value in function.inputs] == ["float32<1 x 3>"]


def test_small_examples_do_not_fit_every_model() -> None:
    node = _node("AveragePool", "x", "y", kernel_shape=[99])
    function = _loaded(_model([node], {"x": ("b", 2, "n")}, {}))
    assert [symbol.declaration for symbol in function.sizes] == [
        f"b in 1..{MAX_SIZE} like 256",
        f"n in 99..{MAX_SIZE} like 512",
    ]


def test_a_table_of_few_rows_leaves_sizes_open_below() -> None:
    nodes = [
        _node("Shape", "x", "shape"),
        _node("Gather", "shape one", "n"),
        _node("Unsqueeze", "n first", "end"),
        _node("Slice", "table first end", "rows"),
        _node("Add", "x rows", "y"),
    ]
    weights = {"one": np.int64(1), "first": [0], "table": _random(7, 4)}
    function = _loaded(_model(nodes, {"x": ("b", "n", 4)}, weights))
    assert [symbol.declaration for symbol in function.sizes] == [
        f"b in 1..{MAX_SIZE} like 2",
        "n in 1..7 like 3",
    ]


def test_examples_in_a_range_can_be_halved() -> None:
    halves = [_node("Conv", "x w", "half", strides=[2]), _node("Conv", "x w", "same")]
    nodes = [
        *halves,
        _node("ConvTranspose", "half v", "up", strides=[2]),
        _node("Add", "same up", "y"),
    ]
    model = _model(nodes, {"x": (1, 1, "n")}, {"w": _random(1, 1, 1), "v": _random(1, 1, 2)})
    net = glow_nb.compile(model, sizes={"n": (99, 500)}, backend="interpreter")
    x = np.ones((1, 1, 100), np.float32)
    assert net.run(x=x)["y"].shape == x.shape


def test_a_size_that_is_made_a_number_leaves_the_examples_of_others() -> None:
    nodes = [
        _node("Shape", "x", "shape"),
        _node("Gather", "shape zero", "n"),
        _node("Cast", "n", "float_n", to=TensorProto.FLOAT),
        _node("Sqrt", "float_n", "root"),
        _node("Cast", "root", "wanted", to=TensorProto.INT64),
        _node("Unsqueeze", "wanted first", "shape_of_y"),
        _node("Expand", "number shape_of_y", "ones"),
        _node("ReduceSum", "ones", "one", keepdims=0),
        _node("Mul", "x one", "y"),
    ]
    weights = {"zero": np.int64(0), "first": [0], "number": np.array([1], np.float32)}
    model = _model(nodes, {"x": ("n", "m")}, weights)
    with pytest.warns(GlowWarning, match="size 'n' is made 32"):
        function = _loaded(model)
    assert [symbol.declaration for symbol in function.sizes] == [f"m in 1..{MAX_SIZE} like 64"]


def test_a_model_that_fits_no_example_is_told_with_the_first_ones() -> None:
    model = _model([_node("Conv", "x w", "y")], {"x": ("b", 3, "n")}, {"w": _random(2, 4, 3)})
    with pytest.raises(ModelError, match=r"node 'y' \(Conv\).*with b = 32, n = 64, as.*hints="):
        _loaded(model)


def test_sizes_are_numbers_that_are_computed_with() -> None:
    """A decoder gathers and adds the places of its tokens."""
    nodes = [
        _node("Shape", "x", "shape"),
        _node("Gather", "shape zero", "n"),
        _node("Gather", "shape one", "m"),
        _node("Add", "n m", "end"),
        _node("Range", "n end one", "places"),
        _node("Gather", "table places", "rows", axis=0),
        _node("Cast", "n", "count", to=TensorProto.FLOAT),
        _node("Div", "rows count", "y"),
    ]
    weights = {"zero": np.int64(0), "one": np.int64(1), "table": _random(64, 2)}
    model = _model(nodes, {"x": ("n", "m")}, weights)
    model.graph.output.append(helper.make_tensor_value_info("shape", TensorProto.INT64, [2]))
    function = _loaded(model)
    assert [str(value.type) for value in function.outputs] == ["float32<m x 2>", "int64<2>"]
    found = glow_nb.evaluate(function, {"x": np.zeros((5, 3), np.float32)})
    table = numpy_helper.to_array(model.graph.initializer[2])
    assert np.array_equal(found["y"], table[5:8] / np.float32(5))
    assert found["shape"].tolist() == [5, 3]


def test_sizes_are_called_by_words_that_read_back() -> None:
    shape = ("int8", "scale", "a", "int8_size", "a b", "n" * 99)
    function = _loaded(_model([_node("Relu", "x", "y")], {"x": shape}, {}))
    names = [symbol.name for symbol in function.sizes]
    assert names == ["int8_size", "scale_size", "a", "int8_size_2", "x_4", "n" * 64]
    text = print_function(function)
    assert print_function(parse_function(text)) == text


def test_a_size_that_has_to_be_a_number_is_told() -> None:
    nodes = [
        _node("Shape", "x", "shape"),
        _node("Cast", "shape", "n", to=TensorProto.FLOAT),
        _node("Sqrt", "n", "root"),
        _node("Cast", "root", "wanted", to=TensorProto.INT64),
        _node("Expand", "number wanted", "y"),
    ]
    model = _model(nodes, {"x": ("n",)}, {"number": np.array([7], np.float32)})
    with pytest.warns(GlowWarning, match=r"size 'n' is made 32: .*node 'y' \(Expand\): it needs"):
        function = _loaded(model)
    assert [str(value.type) for value in function.outputs] == ["float32<5>"]


@pytest.mark.parametrize("step", ["Add", "Sub", "Mul", "Div", "Mod", "Max", "Min"])
def test_shapes_are_computed_with_open_sizes(step: str) -> None:
    nodes = [
        _node("Shape", "x", "shape"),
        _node("Slice", "shape begin end", "n"),
        _node(step, "n three" if step != "Sub" else "three n", "z"),
        _node("Max", "z one", "positive"),
        _node("Expand", "number positive", "y"),
    ]
    weights = {
        "begin": [0],
        "end": [1],
        "three": [3],
        "one": [1],
        "number": np.array([7], np.float32),
    }
    function = _loaded(_model(nodes, {"x": ("n",)}, weights))
    for size in (34, 40):
        wanted = {"Add": size + 3, "Sub": 1, "Mul": 3 * size, "Div": size // 3}
        wanted |= {"Mod": size % 3, "Max": size, "Min": 3}
        found = glow_nb.evaluate(function, {"x": np.zeros(size, np.float32)})["y"]
        assert found.shape == (wanted[step],)


def _expanded(*steps: onnx.NodeProto, **weights: object) -> Any:
    """Return a model that expands a number to what *steps* make of the sizes ``shape`` of x."""
    nodes = [_node("Shape", "x", "shape"), *steps, _node("Expand", "number wanted", "y")]
    known = {"number": np.array([7], np.float32), **weights}
    return _model(nodes, {"x": ("n", 3)}, known)


def test_a_size_is_true_unless_it_is_nothing() -> None:
    model = _expanded(
        _node("Cast", "shape", "is", to=TensorProto.BOOL),
        _node("Concat", "is no", "are", axis=0),
        _node("Cast", "are", "ones", to=TensorProto.INT64),
        _node("Add", "ones one", "wanted"),
        no=[False],
        one=[1, 1, 1],
    )
    found = glow_nb.evaluate(_loaded(model), {"x": np.zeros((4, 3), np.float32)})["y"]
    assert found.shape == (2, 2, 1)


def test_sizes_beside_numbers_are_computed_with() -> None:
    """Of what is left over up to a multiple of 8, the second number is known."""
    model = _expanded(
        _node("Neg", "shape", "below"),
        _node("Mod", "below eight", "rest"),
        _node("Cast", "rest", "small", to=TensorProto.INT32),
        _node("Cast", "small", "large", to=TensorProto.INT64),
        _node("Add", "large one", "wanted"),
        eight=[8],
        one=[1, 1],
    )
    function = _loaded(model)
    assert not function.guards
    for size in (1, 8, 13):
        found = glow_nb.evaluate(function, {"x": np.zeros((size, 3), np.float32)})["y"]
        assert found.shape == (1 + -size % 8, 6)


def test_an_image_is_padded_to_a_multiple() -> None:
    nodes = [
        _node("Shape", "x", "shape"),
        _node("Neg", "shape", "below"),
        _node("Mod", "below steps", "ends"),
        _node("Concat", "begins ends", "pads", axis=0),
        _node("Pad", "x pads", "y"),
    ]
    model = _model(nodes, {"x": ("h", "w")}, {"steps": [8, 4], "begins": [0, 0]})
    net = glow_nb.compile(model, sizes={}, backend="interpreter")
    assert isinstance(net, glow_nb.DynamicNetwork)
    for shape in ((1, 1), (8, 4), (13, 7)):
        x = np.ones(shape, np.float32)
        ends = [(0, -size % step) for size, step in zip(shape, (8, 4), strict=True)]
        assert np.array_equal(net.run(x=x)["y"], np.pad(x, ends))
    assert len(net.variants) == 1


@pytest.mark.parametrize(("divisor", "fmod"), [(3, 1), (-3, 0)])
def test_a_remainder_that_may_be_negative_needs_numbers(divisor: int, fmod: int) -> None:
    """C's remainder and Python's differ there."""
    model = _expanded(
        _node("Sub", "shape five", "below"),
        _node("Mod", "below divisor", "rest", fmod=fmod),
        _node("Add", "rest five", "wanted"),
        five=[5, 5],
        divisor=[divisor],
    )
    with pytest.warns(GlowWarning, match=r"size 'n' is made 32: .*for n"):
        function = _loaded(model)
    found = glow_nb.evaluate(function, {"x": np.zeros((32, 3), np.float32)})["y"]
    rest = np.fmod if fmod else np.mod
    assert found.shape == tuple(rest([27, -2], divisor) + 5)


@pytest.mark.parametrize("sizes", [{}, {"length": (1, 512)}])
def test_a_table_of_few_rows_narrows_a_range_that_is_given(sizes: dict[str, Any]) -> None:
    """The examples of sizes that are tried last are small, however large the range is."""
    nodes = [
        _node("Shape", "x", "length", start=0, end=1),
        _node("Slice", "table zero length zero", "rows"),
        _node("Add", "x rows", "y"),
    ]
    model = _model(nodes, {"x": ("length", 3)}, {"zero": [0]})
    model.graph.initializer.append(numpy_helper.from_array(np.ones((20, 3), np.float32), "table"))
    net = glow_nb.compile(model, sizes=sizes, backend="interpreter")
    assert isinstance(net, glow_nb.DynamicNetwork)
    (symbol,) = net.variants[0].border.symbols
    assert symbol.bounds == (1, 20)


@pytest.mark.parametrize("sizes", [{}, {"h": (32, 1024), "w": (32, 1024)}])
def test_a_layer_of_fixed_width_gets_one_size_for_all_in_ranges(sizes: dict[str, Any]) -> None:
    nodes = [
        _node("AveragePool", "x", "pooled", kernel_shape=[32, 32], strides=[32, 32]),
        _node("Flatten", "pooled", "flat"),
        _node("MatMul", "flat weights", "y"),
    ]
    model = _model(nodes, {"x": (1, 1, "h", "w")}, {})
    weights = numpy_helper.from_array(np.ones((49, 2), np.float32), "weights")
    model.graph.initializer.append(weights)
    net = glow_nb.compile(model, sizes=sizes, backend="interpreter")
    assert isinstance(net, glow_nb.DynamicNetwork)
    found = net.run(x=np.ones((1, 1, 224, 224), np.float32))["y"]
    assert np.array_equal(found, np.full((1, 2), 49, np.float32))
