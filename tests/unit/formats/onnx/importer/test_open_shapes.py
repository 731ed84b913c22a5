"""Shapes that a model computes of its open sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import glow_nb
from glow_nb.base.errors import GlowWarning
from glow_nb.base.size import MAX_SIZE
from tests.unit.formats.onnx.importer.open_models import floats, loaded, model_of, node_of


def test_a_table_of_few_rows_leaves_sizes_open_below() -> None:
    nodes = [
        node_of("Shape", "x", "shape"),
        node_of("Gather", "shape one", "n"),
        node_of("Unsqueeze", "n first", "end"),
        node_of("Slice", "table first end", "rows"),
        node_of("Add", "x rows", "y"),
    ]
    weights = {"one": np.int64(1), "first": [0], "table": floats(7, 4)}
    function = loaded(model_of(nodes, {"x": ("b", "n", 4)}, weights))
    assert [symbol.declaration for symbol in function.sizes] == [
        f"b in 1..{MAX_SIZE} like 2",
        "n in 1..7 like 3",
    ]


def test_a_size_that_is_made_a_number_leaves_the_examples_of_others() -> None:
    nodes = [
        node_of("Shape", "x", "shape"),
        node_of("Gather", "shape zero", "n"),
        node_of("Cast", "n", "float_n", to=TensorProto.FLOAT),
        node_of("Sqrt", "float_n", "root"),
        node_of("Cast", "root", "wanted", to=TensorProto.INT64),
        node_of("Unsqueeze", "wanted first", "shape_of_y"),
        node_of("Expand", "number shape_of_y", "ones"),
        node_of("ReduceSum", "ones", "one", keepdims=0),
        node_of("Mul", "x one", "y"),
    ]
    weights = {"zero": np.int64(0), "first": [0], "number": np.array([1], np.float32)}
    model = model_of(nodes, {"x": ("n", "m")}, weights)
    with pytest.warns(GlowWarning, match="size 'n' is made 32"):
        function = loaded(model)
    assert [symbol.declaration for symbol in function.sizes] == [f"m in 1..{MAX_SIZE} like 64"]


def test_sizes_are_numbers_that_are_computed_with() -> None:
    """A decoder gathers and adds the places of its tokens."""
    nodes = [
        node_of("Shape", "x", "shape"),
        node_of("Gather", "shape zero", "n"),
        node_of("Gather", "shape one", "m"),
        node_of("Add", "n m", "end"),
        node_of("Range", "n end one", "places"),
        node_of("Gather", "table places", "rows", axis=0),
        node_of("Cast", "n", "count", to=TensorProto.FLOAT),
        node_of("Div", "rows count", "y"),
    ]
    weights = {"zero": np.int64(0), "one": np.int64(1), "table": floats(64, 2)}
    model = model_of(nodes, {"x": ("n", "m")}, weights)
    model.graph.output.append(helper.make_tensor_value_info("shape", TensorProto.INT64, [2]))
    function = loaded(model)
    assert [str(value.type) for value in function.outputs] == ["float32<m x 2>", "int64<2>"]
    found = glow_nb.evaluate(function, {"x": np.zeros((5, 3), np.float32)})
    table = numpy_helper.to_array(model.graph.initializer[2])
    assert np.array_equal(found["y"], table[5:8] / np.float32(5))
    assert found["shape"].tolist() == [5, 3]


def test_a_size_that_has_to_be_a_number_is_told() -> None:
    nodes = [
        node_of("Shape", "x", "shape"),
        node_of("Cast", "shape", "n", to=TensorProto.FLOAT),
        node_of("Sqrt", "n", "root"),
        node_of("Cast", "root", "wanted", to=TensorProto.INT64),
        node_of("Expand", "number wanted", "y"),
    ]
    model = model_of(nodes, {"x": ("n",)}, {"number": np.array([7], np.float32)})
    with pytest.warns(GlowWarning, match=r"size 'n' is made 32: .*node 'y' \(Expand\): it needs"):
        function = loaded(model)
    assert [str(value.type) for value in function.outputs] == ["float32<5>"]


@pytest.mark.parametrize("step", ["Add", "Sub", "Mul", "Div", "Mod", "Max", "Min"])
def test_shapes_are_computed_with_open_sizes(step: str) -> None:
    nodes = [
        node_of("Shape", "x", "shape"),
        node_of("Slice", "shape begin end", "n"),
        node_of(step, "n three" if step != "Sub" else "three n", "z"),
        node_of("Max", "z one", "positive"),
        node_of("Expand", "number positive", "y"),
    ]
    weights = {
        "begin": [0],
        "end": [1],
        "three": [3],
        "one": [1],
        "number": np.array([7], np.float32),
    }
    function = loaded(model_of(nodes, {"x": ("n",)}, weights))
    for size in (34, 40):
        wanted = {"Add": size + 3, "Sub": 1, "Mul": 3 * size, "Div": size // 3}
        wanted |= {"Mod": size % 3, "Max": size, "Min": 3}
        found = glow_nb.evaluate(function, {"x": np.zeros(size, np.float32)})["y"]
        assert found.shape == (wanted[step],)


def _expanded(*steps: onnx.NodeProto, **weights: object) -> Any:
    """Return a model that expands a number to what *steps* make of the sizes ``shape`` of x."""
    nodes = [node_of("Shape", "x", "shape"), *steps, node_of("Expand", "number wanted", "y")]
    known = {"number": np.array([7], np.float32), **weights}
    return model_of(nodes, {"x": ("n", 3)}, known)


def test_a_size_is_true_unless_it_is_nothing() -> None:
    model = _expanded(
        node_of("Cast", "shape", "is", to=TensorProto.BOOL),
        node_of("Concat", "is no", "are", axis=0),
        node_of("Cast", "are", "ones", to=TensorProto.INT64),
        node_of("Add", "ones one", "wanted"),
        no=[False],
        one=[1, 1, 1],
    )
    found = glow_nb.evaluate(loaded(model), {"x": np.zeros((4, 3), np.float32)})["y"]
    assert found.shape == (2, 2, 1)


def test_sizes_beside_numbers_are_computed_with() -> None:
    """Of what is left over up to a multiple of 8, the second number is known."""
    model = _expanded(
        node_of("Neg", "shape", "below"),
        node_of("Mod", "below eight", "rest"),
        node_of("Cast", "rest", "small", to=TensorProto.INT32),
        node_of("Cast", "small", "large", to=TensorProto.INT64),
        node_of("Add", "large one", "wanted"),
        eight=[8],
        one=[1, 1],
    )
    function = loaded(model)
    assert not function.guards
    for size in (1, 8, 13):
        found = glow_nb.evaluate(function, {"x": np.zeros((size, 3), np.float32)})["y"]
        assert found.shape == (1 + -size % 8, 6)


def test_a_product_of_sizes_is_an_int32_where_it_is_not_too_large() -> None:
    """As PaddlePaddle's exporter writes it: the tokens of an image, height times width."""
    nodes = [
        node_of("Reshape", "x joined", "tokens"),
        node_of("Shape", "tokens", "shape"),
        node_of("Cast", "shape", "small", to=TensorProto.INT32),
        node_of("Slice", "small first end", "count"),
        node_of("Cast", "count", "large", to=TensorProto.INT64),
        node_of("Concat", "keeps large two two", "wanted", axis=0),
        node_of("Reshape", "tokens wanted", "y"),
    ]
    weights = {"joined": [0, -1, 4], "first": [1], "end": [2], "keeps": [0], "two": [2]}
    function = loaded(model_of(nodes, {"x": ("batch", "h", "w", 4)}, weights))
    assert [str(guard) for guard in function.guards] == [f"h*w <= {2**31 - 1}"]
    x = np.arange(120, dtype=np.float32).reshape(2, 3, 5, 4)
    found = glow_nb.evaluate(function, {"x": x})["y"]
    assert np.array_equal(found, x.reshape(2, 15, 2, 2))


def test_an_image_is_padded_to_a_multiple() -> None:
    nodes = [
        node_of("Shape", "x", "shape"),
        node_of("Neg", "shape", "below"),
        node_of("Mod", "below steps", "ends"),
        node_of("Concat", "begins ends", "pads", axis=0),
        node_of("Pad", "x pads", "y"),
    ]
    model = model_of(nodes, {"x": ("h", "w")}, {"steps": [8, 4], "begins": [0, 0]})
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
        node_of("Sub", "shape five", "below"),
        node_of("Mod", "below divisor", "rest", fmod=fmod),
        node_of("Add", "rest five", "wanted"),
        five=[5, 5],
        divisor=[divisor],
    )
    with pytest.warns(GlowWarning, match=r"size 'n' is made 32: .*for n"):
        function = loaded(model)
    found = glow_nb.evaluate(function, {"x": np.zeros((32, 3), np.float32)})["y"]
    rest = np.fmod if fmod else np.mod
    assert found.shape == tuple(rest([27, -2], divisor) + 5)
