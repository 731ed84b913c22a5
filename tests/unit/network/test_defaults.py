"""An initializer that is an input as well is a default, which feeds and constants replace."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import glow_nb
import glow_nb.onnx_backend
from glow_nb.base.errors import FeedError, ModelError, OptionError
from glow_nb.network.network import CompiledNetwork
from glow_nb.train import SGD, MeanSquaredError, Trainer
from tests.unit.formats.onnx.importer.models import model, value, weight

X = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
OWN = np.array([10, 20, 30], np.float32)
OTHER = np.array([1, 1, 2], np.float32)
NODES = [helper.make_node("Mul", ["x", "w"], ["y"])]


def scaled(rows: Any = 2, columns: Any = 3, ir_version: int = 10) -> onnx.ModelProto:
    """Return ``y = x * w``, where ``w`` has a default."""
    made = model(NODES, [value("x", (rows, 3)), value("w", (columns,))], weights=[weight("w", OWN)])
    made.ir_version = ir_version
    return made


def sparsely_scaled() -> onnx.ModelProto:
    values = helper.make_tensor("w", TensorProto.FLOAT, [3], OWN)
    indices = helper.make_tensor("i", TensorProto.INT64, [3], [0, 1, 2])
    made = model(NODES, [value("x"), value("w", (3,))])
    made.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [3]))
    return made


MODELS = [scaled(), scaled("n"), scaled(2, "k"), scaled(ir_version=3), sparsely_scaled()]


@pytest.mark.parametrize("proto", MODELS)
def test_a_feed_replaces_the_default_in_that_run(proto: onnx.ModelProto) -> None:
    network = glow_nb.compile(proto, backend="interpreter")
    assert (list(network.inputs), list(network.defaults)) == (["x"], ["w"])
    for feeds, factors in (({}, OWN), ({"w": OTHER}, OTHER), ({"w": -OWN}, -OWN), ({}, OWN)):
        np.testing.assert_array_equal(network.run({"x": X, **feeds})["y"], X * factors)
    np.testing.assert_array_equal(network.run(X)["y"], X * OWN)


@pytest.mark.parametrize("threads", [1, 2])
def test_machine_code_takes_the_feed(threads: int) -> None:
    network = glow_nb.compile(scaled(), threads=threads)
    np.testing.assert_array_equal(network.run({"x": X})["y"], X * OWN)
    np.testing.assert_array_equal(network.run({"w": OTHER, "x": X})["y"], X * OTHER)
    assert network.profile({"x": X, "w": OTHER}, runs=1, limits=False).kernels


@pytest.mark.parametrize("proto", MODELS)
def test_constants_replace_the_default_for_good(proto: onnx.ModelProto) -> None:
    network = glow_nb.compile(proto, backend="interpreter", constants={"w": OTHER})
    assert (list(network.inputs), list(network.defaults)) == (["x"], [])
    np.testing.assert_array_equal(network.run(X)["y"], X * OTHER)
    with pytest.raises(FeedError, match="unknown input 'w'"):
        network.run({"x": X, "w": OWN})


def test_whole_shape_makes_an_input_of_it() -> None:
    network = glow_nb.compile(scaled(), backend="interpreter", shapes={"w": (3,)})
    assert isinstance(network, CompiledNetwork)
    assert (list(network.inputs), list(network.defaults)) == (["x", "w"], [])
    np.testing.assert_array_equal(network.run({"x": X, "w": OTHER})["y"], X * OTHER)
    with pytest.raises(FeedError, match=r"\['w'\] are not fed"):
        network.run({"x": X})


def test_feed_may_have_other_sizes_where_the_input_leaves_them_open() -> None:
    network = glow_nb.compile(scaled(2, "k"), backend="interpreter")
    np.testing.assert_array_equal(network.run({"x": X, "w": OWN[:1]})["y"], X * 10)
    network.prepare({"w": (1,)}).result()


@pytest.mark.parametrize(
    ("feed", "message"),
    [
        (OWN[:2], "shape is"),
        (OWN.astype(np.float64), "dtype is float64"),
        (None, "None is no array"),
    ],
)
def test_feeds_that_do_not_fit_are_refused(feed: Any, message: str) -> None:
    network = glow_nb.compile(scaled(), backend="interpreter")
    with pytest.raises(FeedError, match=message):
        network.run({"x": X, "w": feed})


@pytest.mark.parametrize("array", [OWN[:2], OWN.astype(np.float64)])
def test_constants_that_do_not_fit_are_refused(array: Any) -> None:
    with pytest.raises(ModelError, match="is declared float32"):
        glow_nb.load(scaled(), constants={"w": array})


def test_weight_that_is_no_input_has_no_feed() -> None:
    proto = model(NODES, [value("x")], weights=[weight("w", OWN)])
    network = glow_nb.compile(proto, backend="interpreter")
    assert not network.defaults
    with pytest.raises(FeedError, match="unknown input 'w'"):
        network.run({"x": X, "w": OTHER})
    with pytest.raises(ModelError, match="'w' is a weight and no input"):
        glow_nb.load(proto, constants={"w": OTHER})
    with pytest.raises(OptionError, match="'w' is a weight and no input"):
        glow_nb.load(proto, shapes={"w": (3,)})


def test_feed_that_a_shape_depends_on() -> None:
    nodes = [helper.make_node("Reshape", ["x", "s"], ["y"])]
    inputs = [value("x"), value("s", (2,), TensorProto.INT64)]
    proto = model(nodes, inputs, weights=[weight("s", np.array([3, 2]))])
    network = glow_nb.compile(proto, backend="interpreter")
    assert network.run(X)["y"].shape == (3, 2)
    other = np.array([6, 1])
    for numbers in (other, [2, 3], [1, 6], other):  # each is compiled for, as sizes are
        result = network.run({"x": X, "s": np.array(numbers)})["y"]
        np.testing.assert_array_equal(result, X.reshape(numbers))
    assert network.run(X)["y"].shape == (3, 2)
    fixed = glow_nb.compile(proto, backend="interpreter", constants={"s": other})
    assert fixed.run(X)["y"].shape == (6, 1)
    rep = glow_nb.onnx_backend.prepare(proto, engine="evaluate")
    assert [rep.run(given)[0].shape for given in ([X], [X, other])] == [(3, 2), (6, 1)]


def test_model_is_kept_as_it_was_compiled(tmp_path: Path) -> None:
    proto = scaled()
    path = tmp_path / "scaled.onnx"
    onnx.save(proto, path)
    networks = [glow_nb.compile(source, backend="interpreter") for source in (proto, path)]
    proto.graph.node[0].op_type = "Add"
    path.unlink()
    for network in networks:
        np.testing.assert_array_equal(network.run({"x": X, "w": OTHER})["y"], X * OTHER)


@pytest.mark.parametrize("proto", [scaled("n"), scaled()])
def test_training_takes_the_feed(proto: onnx.ModelProto) -> None:
    head = weight("v", np.eye(3, dtype=np.float32))
    proto.graph.initializer.append(head)
    proto.graph.node.append(helper.make_node("MatMul", ["y", "v"], ["z"]))
    proto.graph.output[0].name = "z"
    target = np.zeros((2, 3), np.float32)
    trainer = Trainer(proto, loss=MeanSquaredError(), optimizer=SGD(1e-30), backend="interpreter")
    losses = [trainer.step(feeds, target) for feeds in ({"x": X}, {"x": X, "w": OTHER})]
    expected = [np.square(X * factors).mean() for factors in (OWN, OTHER)]
    np.testing.assert_allclose(losses, expected, rtol=1e-5)


@pytest.mark.parametrize("proto", MODELS)
def test_standard_backend_takes_values_for_defaults(proto: onnx.ModelProto) -> None:
    rep = glow_nb.onnx_backend.prepare(proto, engine="evaluate")
    for given, factors in (
        ([X], OWN),
        ([X, OTHER], OTHER),
        ({"x": X}, OWN),
        ({"w": OTHER, "x": X}, OTHER),
        (X, OWN),
    ):
        np.testing.assert_array_equal(rep.run(given)[0], X * factors)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"x": X, "v": X}, "unknown input 'v'"),
        ({"w": OTHER}, r"\['x'\] are not fed"),
        ([X, OTHER, X], r"3 inputs given, the model takes \['x'\], and those .* default, \['w'\]"),
        ([], "0 inputs given"),
    ],
)
def test_standard_backend_ignores_nothing(given: Any, message: str) -> None:
    rep = glow_nb.onnx_backend.prepare(scaled(), engine="evaluate")
    with pytest.raises(FeedError, match=message):
        rep.run(given)
