"""Symbolic dimensions: bound at compile, or by the first run, which compiles and keeps it."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import glow_nb
from glow_nb.dynamic import MAX_VARIANTS, DynamicNetwork
from glow_nb.errors import FeedError, OptionError
from glow_nb.passes import PassRun


def model() -> onnx.ModelProto:
    """y = reshape(relu(x), [batch, -1]) + z, with batch and width unknown."""
    nodes = [
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Gather", ["s", "zero"], ["n"]),
        helper.make_node("Concat", ["n", "rest"], ["t"], axis=0),
        helper.make_node("Reshape", ["r", "t"], ["flat"]),
        helper.make_node("Add", ["flat", "z"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "symbolic",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 2, "width"]),
            helper.make_tensor_value_info("z", TensorProto.FLOAT, ["batch", 1]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [
            helper.make_tensor("zero", TensorProto.INT64, [1], [0]),
            helper.make_tensor("rest", TensorProto.INT64, [1], [-1]),
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def feeds(batch: int, width: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(batch)
    return {
        "x": rng.normal(size=(batch, 2, width)).astype(np.float32),
        "z": rng.normal(size=(batch, 1)).astype(np.float32),
    }


def check(net: glow_nb.CompiledNetwork, batch: int, width: int) -> None:
    given = feeds(batch, width)
    expected = np.maximum(given["x"], 0).reshape(batch, -1) + given["z"]
    np.testing.assert_allclose(net.run(given)["y"], expected, rtol=1e-6)


def test_shapes_bind_at_compile_time() -> None:
    net = glow_nb.compile(model(), backend="interpreter", shapes={"batch": 3, "width": 5})
    assert [str(t) for t in net.inputs.values()] == ["float32<3 x 2 x 5>", "float32<3 x 1>"]
    check(net, 3, 5)


def test_the_first_run_binds_what_is_open_and_keeps_it() -> None:
    runs: list[PassRun] = []
    net = glow_nb.compile(model(), backend="interpreter", observer=runs.append)
    assert isinstance(net, DynamicNetwork) and not runs
    check(net, 3, 5)
    compiled = len(runs)
    assert compiled > 0
    check(net, 3, 5)
    assert len(runs) == compiled
    check(net, 2, 4)
    assert len(runs) > compiled
    assert str(net.inputs["x"]) == "float32<2 x 2 x 4>"


def test_what_is_bound_at_compile_time_stays_bound() -> None:
    net = glow_nb.compile(model(), backend="interpreter", shapes={"batch": 3})
    check(net, 3, 5)
    with pytest.raises(OptionError, match="'batch' is bound to both 3 and 2"):
        net.run(feeds(2, 5))


def test_old_shapes_are_forgotten_not_piled_up() -> None:
    net = glow_nb.compile(model(), backend="interpreter")
    assert isinstance(net, DynamicNetwork)
    for batch in range(1, MAX_VARIANTS + 4):
        check(net, batch, 1)
    assert len(net._variants) == MAX_VARIANTS


def test_nothing_is_known_before_the_first_run() -> None:
    net = glow_nb.compile(model(), backend="interpreter")
    assert "not compiled yet" in repr(net)
    with pytest.raises(glow_nb.GlowError, match="not bound yet; run it once or pass shapes="):
        _ = net.memory


def test_shapes_that_do_not_fit_are_refused() -> None:
    net = glow_nb.compile(model(), backend="interpreter")
    given = feeds(3, 5)
    with pytest.raises(FeedError, match=r"'x': shape is \[3, 5\], the network takes \['batch', 2"):
        net.run({**given, "x": given["x"][:, 0]})
    with pytest.raises(FeedError, match="dimension 'batch' is 3 in input 'x' but 2 in 'z'"):
        net.run({**given, "z": given["z"][:2]})
    with pytest.raises(OptionError, match="no symbolic dimension 'bath'; did you mean 'batch'?"):
        glow_nb.compile(model(), shapes={"bath": 3})
