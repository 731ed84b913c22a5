"""Values inside of a model, returned by a run by the names of the model."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import glow_nb
from glow_nb.base.errors import ModelError, OptionError
from glow_nb.hlir import ops
from glow_nb.hlir.graph import Function
from glow_nb.hlir.module import Module
from glow_nb.network.network import CompiledNetwork, Network
from glow_nb.network.rebuilding import MOST_WATCHED
from tests.unit.network.stateful import BACKENDS, ONES, counter, new_total, twice

RNG = np.random.default_rng(0)
X = RNG.normal(size=(1, 3, 4, 4)).astype(np.float32)


def normalized(batch: int | str = 1) -> onnx.ModelProto:
    """Return a convolution, a normalization that is folded into it, a ReLU and a split."""
    scales = {n: RNG.random(4, np.float32) + 0.5 for n in ("gain", "bias", "mean", "variance")}
    weights = {"w": RNG.normal(size=(4, 3, 3, 3)).astype(np.float32), **scales}
    make = helper.make_node
    nodes = [
        make("Conv", ["x", "w"], ["c"], name="conv_1", pads=[1, 1, 1, 1]),
        make("BatchNormalization", ["c", *scales], ["n"], name="norm_1"),
        make("Relu", ["n"], ["r"], name="relu_1"),
        make("Split", ["r"], ["s0", "s1"], name="split_1", axis=1, num_outputs=2),
        make("Add", ["s0", "s1"], ["y"], name="add_1"),
    ]
    tensor = helper.make_tensor_value_info
    inputs = [tensor("x", 1, [batch, 3, 4, 4])]
    stored = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "net", inputs, [tensor("y", 1, [batch, 2, 4, 4])], stored)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def values_of(model: onnx.ModelProto, x: np.ndarray, names: Sequence[str]) -> list[np.ndarray]:
    """Return the values called *names* as the reference of ONNX computes them."""
    wider = onnx.ModelProto()
    wider.CopyFrom(model)
    wider.graph.output.extend(helper.make_tensor_value_info(name, 1, None) for name in names)
    return [np.asarray(a) for a in ReferenceEvaluator(wider).run(list(names), {"x": x})]


@pytest.mark.parametrize("backend", BACKENDS)
class TestModels:
    @pytest.mark.parametrize("given", ["file", "bytes", "message"])
    def test_values_are_those_of_the_model(self, backend: str, given: str, tmp_path: Path) -> None:
        model = normalized()
        path = tmp_path / "net.onnx"
        onnx.save(model, path)
        graph: Any = {"file": path, "bytes": model.SerializeToString(), "message": model}[given]
        net = glow_nb.compile(graph, backend=backend, threads=1)
        found = net.run(X, watch=["conv_1", "n", "relu_1", "s1", "y", "x"])
        assert list(found) == ["y", "conv_1", "n", "relu_1", "s1", "x"]
        expected = values_of(model, X, ["y", "c", "n", "r", "s1", "y"])
        for array, right in zip(list(found.values()), [*expected[:5], X], strict=True):
            np.testing.assert_allclose(array, right, rtol=1e-4, atol=1e-5)
        assert list(net.run(X)) == ["y"]

    def test_open_sizes_are_watched(self, backend: str) -> None:
        model = normalized("batch")
        net = glow_nb.compile(model, backend=backend, threads=1)
        for batch in (1, 2):
            x = np.concatenate([X] * batch)
            (expected,) = values_of(model, x, ["c"])
            found = net.run({"x": x}, watch=["conv_1"])["conv_1"]
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)

    def test_a_state_moves_on_once(self, backend: str) -> None:
        total = new_total()
        module = Module((counter(total), twice(total)))
        net = glow_nb.compile(module, backend=backend, threads=1)
        net["count"].run(ONES)
        (added,) = (node.name for node in module.functions[0].nodes if isinstance(node, ops.Add))
        found = net["count"].run(ONES, watch=[added, "total"])
        np.testing.assert_array_equal(found[added], 2)
        np.testing.assert_array_equal(found["total"], 1)
        np.testing.assert_array_equal(net.state["total"], 2)
        np.testing.assert_array_equal(net["twice"].run({})["y"], 4)

    def test_a_program_is_watched_by_the_names_of_its_text(self, backend: str) -> None:
        compiled = glow_nb.compile(
            chain(), backend=backend, threads=1, without=["stack_instructions"]
        )
        net = glow_nb.compile(compiled.program, backend=backend, threads=1)
        found = net.run(np.array([-4, 1, 9], np.float32), watch=["absolute", "y"])
        np.testing.assert_array_equal(found["absolute"], [4, 1, 9])
        np.testing.assert_array_equal(found["y"], [2, 1, 3])
        with pytest.raises(OptionError, match="'absolut'; did you mean 'absolute'"):
            net.run(ONES, watch=["absolut"])


def chain() -> Function:
    """Return ``y = sqrt(|x|)``."""
    b = glow_nb.Builder("chain")
    b.save(b.emit(ops.Sqrt(b.emit(ops.Abs(b.input("x", "float32<3>")), "absolute")), "root"), "y")
    return b.function()


@pytest.fixture(scope="module")
def net() -> Network:
    return glow_nb.compile(normalized(), backend="interpreter")


@pytest.mark.parametrize(
    ("watch", "message"),
    [
        (["conv1"], "no value and no node 'conv1'; did you mean 'conv_1'"),
        (["split_1"], r"nodes called 'split_1' make \['s0', 's1'\]; choose one"),
        ("conv_1", "watch='conv_1': give a list of names"),
        ([], r"watch=\[\]: give a list of names"),
        ([7], r"watch=\[7\]: give a list of names"),
    ],
)
def test_a_name_that_means_no_one_value_is_refused(net: Network, watch: Any, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        net.run(X, watch=watch)


def test_a_value_that_is_called_like_another_node_is_ambiguous() -> None:
    model = normalized()
    model.graph.node[2].name = "c"  # the ReLU, which makes r
    net = glow_nb.compile(model, backend="interpreter")
    with pytest.raises(OptionError, match=r"'c' is a value, and a node .* makes \['r'\].*'conv_1'"):
        net.run(X, watch=["c"])


def test_results_of_a_node_with_several_are_numbered() -> None:
    b = glow_nb.Builder("f")
    split = b.emit(ops.Split(b.input("x", "float32<2 x 3>"), axis=0, sizes=(1, 1)), "halves")
    b.save(b.emit(ops.Add(*split.results)), "y")
    function = b.function()
    net = glow_nb.compile(function, backend="interpreter")
    found = net.run(np.arange(6, dtype=np.float32).reshape(2, 3), watch=["halves#1"])
    np.testing.assert_array_equal(found["halves#1"], [[3, 4, 5]])
    with pytest.raises(OptionError, match=r"'halves' has 2 results.*'halves#0', 'halves#1'"):
        net.run(np.ones((2, 3), np.float32), watch=["halves"])
    with pytest.raises(OptionError, match="'y_save' has 0 results"):
        net.run(np.ones((2, 3), np.float32), watch=["y_save"])


def test_watching_goes_with_the_other_arguments(net: Network) -> None:
    place = np.empty((1, 2, 4, 4), np.float32)
    assert net.run(X, into={"y": place}, watch=["c"])["y"] is place
    assert list(net.run(X, outputs=["y"], watch=["c"])) == ["y", "c"]
    assert list(net.run_async(X, watch=["r"]).result(60)) == ["y", "r"]


def test_the_network_of_a_set_of_names_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    net = glow_nb.compile(normalized(), backend="interpreter")
    assert isinstance(net, CompiledNetwork)
    made: list[Sequence[str]] = []
    make: Callable[..., Any] = net.rebuilding.watched

    def counted(names: Sequence[str], state: object) -> object:
        made.append(names)
        return make(names, state)

    monkeypatch.setattr(net.rebuilding, "watched", counted)
    for name in ("c", "c", "n", "r", "s0", "s1", "s1", "c"):
        net.run(X, watch=[name])
    assert MOST_WATCHED == 4
    assert made == [["c"], ["n"], ["r"], ["s0"], ["s1"], ["c"]]


def test_a_file_that_changed_is_not_watched(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    onnx.save(normalized(), path)
    net = glow_nb.compile(path, backend="interpreter")
    os.utime(path, (1, 1))
    with pytest.raises(ModelError, match="was changed or removed since the network was compiled"):
        net.run(X, watch=["c"])
    assert list(net.run(X)) == ["y"]


@pytest.mark.parametrize("name", ["net.bin", "net.npz"])
def test_data_beside_a_file_that_changed_are_not_watched(tmp_path: Path, name: str) -> None:
    model, data = normalized(), tmp_path / name
    path = tmp_path / ("net.onnx" if name == "net.bin" else "net.glow")
    if name == "net.bin":
        onnx.save(model, path, save_as_external_data=True, location=name, size_threshold=0)
    else:
        glow_nb.save_text(glow_nb.load(model), path)
    net = glow_nb.compile(path, backend="interpreter")
    y = net.run(X)["y"]
    names = net.value_names
    np.testing.assert_allclose(net.run(X, watch=names[:1])["y"], y, rtol=1e-5)
    os.utime(data, (1, 1))
    with pytest.raises(ModelError, match=rf"{name}: was changed or removed"):
        net.run(X, watch=names[1:2])
    np.testing.assert_array_equal(net.run(X)["y"], y)


def test_of_a_graph_that_is_gone_what_the_passes_made_is_watched() -> None:
    net = glow_nb.compile(glow_nb.load(normalized()), backend="interpreter")
    gc.collect()
    found = net.run(X, watch=["r"])["r"]
    (expected,) = values_of(normalized(), X, ["r"])
    assert found.size == expected.size  # in the layout of the kernels
    message = "no value 'conv_1'; passes made .* of it.*; the model itself is not available"
    with pytest.raises(OptionError, match=message):
        net.run(X, watch=["conv_1"])


@pytest.mark.jit
def test_a_loaded_network_is_watched_through_its_levels(tmp_path: Path) -> None:
    model = normalized()
    glow_nb.compile(model, threads=1).save(tmp_path / "net")
    net = glow_nb.load_compiled(tmp_path / "net")
    (expected,) = values_of(model, X, ["r"])
    found = net.run(X, watch=["r"])["r"]
    np.testing.assert_allclose(found.transpose(0, 3, 1, 2), expected, rtol=1e-4, atol=1e-5)
    with pytest.raises(OptionError, match=r"no value 's1'.*; the model itself is not .* \(load"):
        net.run(X, watch=["s1"])
