"""Random inputs, and sizes for open dimensions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from glow_nb.base.errors import OptionError
from glow_nb.tools.duel.feeds import bind, bind_shapes, graph_inputs, random_feeds

Shape = Sequence[int | str | None] | None


def model(**inputs: tuple[int, Shape]) -> onnx.ModelProto:
    values = [helper.make_tensor_value_info(n, kind, shape) for n, (kind, shape) in inputs.items()]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 3])
    constant = helper.make_tensor("x_constant", TensorProto.FLOAT, [1], [0.0])
    graph = helper.make_graph([], "graph", values, [output], [constant])
    return helper.make_model(graph)


def shapes_of(proto: onnx.ModelProto) -> dict[str, list[int]]:
    return {
        value.name: [dimension.dim_value for dimension in value.type.tensor_type.shape.dim]
        for value in (*graph_inputs(proto), *proto.graph.output)
    }


def test_feeds_are_seeded_and_typed() -> None:
    proto = model(
        x=(TensorProto.FLOAT, [2, 3]),
        tokens=(TensorProto.INT64, [1, 50]),
        attention_mask=(TensorProto.INT32, [1, 50]),
        flag=(TensorProto.BOOL, [2]),
        x_constant=(TensorProto.FLOAT, [1]),
    )
    feeds, again = random_feeds(proto), random_feeds(proto)
    assert list(feeds) == ["x", "tokens", "attention_mask", "flag"]
    assert {name: str(array.dtype) for name, array in feeds.items()} == {
        "x": "float32", "tokens": "int64", "attention_mask": "int32", "flag": "bool",
    }  # fmt: skip
    assert set(np.unique(feeds["attention_mask"])) == {0, 1}
    assert feeds["tokens"].max() > 1
    assert feeds["flag"].all()
    assert all((feeds[name] == again[name]).all() for name in feeds)
    assert (random_feeds(proto, seed=8)["x"] != feeds["x"]).any()


def test_a_named_size_is_bound_wherever_it_stands() -> None:
    proto = model(x=(TensorProto.FLOAT, ["n", 3]), z=(TensorProto.FLOAT, [4, "n"]))
    bind_shapes(proto, {"n": 5})
    assert shapes_of(proto) == {"x": [5, 3], "z": [4, 5], "y": [5, 3]}


def test_a_whole_shape_binds_its_names() -> None:
    proto = model(x=(TensorProto.FLOAT, ["n", "m"]), z=(TensorProto.FLOAT, ["m"]))
    bind_shapes(proto, {"x": (5, 3)})
    assert shapes_of(proto) == {"x": [5, 3], "z": [3], "y": [5, 3]}


def test_batch_is_the_first_dimension_of_every_input() -> None:
    proto = model(x=(TensorProto.FLOAT, ["n", 3]), z=(TensorProto.FLOAT, [None, 3]))
    bind_shapes(proto, {}, batch=7)
    assert shapes_of(proto) == {"x": [7, 3], "z": [7, 3], "y": [7, 3]}


def test_an_input_of_unknown_rank_takes_a_whole_shape() -> None:
    proto = model(x=(TensorProto.FLOAT, None), z=(TensorProto.FLOAT, ["n", 3]))
    with pytest.raises(OptionError, match="'x'"):
        bind_shapes(proto, {"n": 2})
    bind_shapes(proto, {"x": (2, 2)})
    assert shapes_of(proto)["x"] == [2, 2]


@pytest.mark.parametrize(
    ("shapes", "batch", "words"),
    [
        ({}, None, "without a size"),
        ({"m": 3}, None, "no such input or dimension; it has n, x"),
        ({"x": (2,)}, None, "1 dimensions, the input 2"),
        ({"x": (2, 4)}, None, "fixed to 3, not 4"),
    ],
)
def test_what_does_not_fit_is_refused(
    shapes: dict[str, int | Sequence[int]], batch: int | None, words: str
) -> None:
    with pytest.raises(OptionError, match=words):
        bind_shapes(model(x=(TensorProto.FLOAT, ["n", 3])), shapes, batch)


def test_a_fixed_batch_stays() -> None:
    proto = model(x=(TensorProto.FLOAT, [1, 3]))
    with pytest.raises(OptionError, match="dimension 0 is fixed to 1, not 4"):
        bind_shapes(proto, {}, batch=4)


def test_constants_take_the_place_of_inputs_and_of_their_defaults() -> None:
    def info(name: str) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, [2])

    nodes = [helper.make_node("Sum", ["x", "a", "b"], ["y"])]
    own = numpy_helper.from_array(np.zeros(2, np.float32), "b")
    graph = helper.make_graph(nodes, "g", [info("x"), info("a"), info("b")], [info("y")], [own])
    made = helper.make_model(graph)
    given = {"a": np.ones(2, np.float32), "b": np.full(2, 2, np.float32)}
    bind(made, {}, given)
    assert [value.name for value in made.graph.input] == ["x"]
    arrays = {t.name: numpy_helper.to_array(t).tolist() for t in made.graph.initializer}
    assert arrays == {"a": [1.0, 1.0], "b": [2.0, 2.0]}
