"""Inputs and outputs keep the model's names, whatever else has them, on every surface."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import helper

import glow_nb
from glow_nb.cli import main
from glow_nb.formats.onnx.importer import import_onnx
from glow_nb.hlir.evaluate import evaluate
from glow_nb.network.files import load_text, save_text
from tests.unit.formats.onnx.importer.models import FLOAT, model, one, value, weight

FED = np.arange(6, dtype=np.float32).reshape(2, 3) - 2
NUMBERS = np.full((2, 3), 7, np.float32)


def relu(name: str = "y", source: str = "x") -> onnx.NodeProto:
    return helper.make_node("Relu", [source], [name])


def branch(name: str) -> onnx.GraphProto:
    """Return a subgraph whose output *name* is called like an output of the graph around it."""
    return helper.make_graph([relu(name)], "branch", [], [value(name, None)])


WEIGHTS = [weight("w", NUMBERS)]
# The model, and what its outputs must be for FED, in order.
MODELS: dict[str, tuple[onnx.ModelProto, dict[str, Any]]] = {
    "an input": (model([], outputs=["x"]), {"x": FED}),
    "an input beside others": (
        model([relu()], outputs=["y", "x"]),
        {"y": FED.clip(0), "x": FED},
    ),
    "two inputs": (
        model([relu()], [value("x"), value("u")], ["u", "y", "x"]),
        {"u": FED, "y": FED.clip(0), "x": FED},
    ),
    "a weight": (model([relu()], outputs=["w", "y"], weights=WEIGHTS), {"w": NUMBERS, "y": None}),
    "a weight that is listed as an input": (
        model([relu()], [value("x"), value("w")], ["w", "y"], WEIGHTS),
        {"w": NUMBERS, "y": None},
    ),
    "a constant": (
        model(
            [helper.make_node("Constant", [], ["c"], value=weight("", NUMBERS)), relu()],
            outputs=["c", "y"],
        ),
        {"c": NUMBERS, "y": None},
    ),
    "one value twice": (
        model(
            [relu("a"), helper.make_node("Identity", ["a"], ["b"])],
            outputs=["b", "a"],
        ),
        {"b": FED.clip(0), "a": FED.clip(0)},
    ),
    "names that we give to nodes": (
        model(
            [relu("y"), relu("y_1", "y"), relu("y_save", "x"), relu("x_save")],
            outputs=["y", "y_1", "y_save", "x_save", "x"],
        ),
        {"y": None, "y_1": None, "y_save": None, "x_save": None, "x": FED},
    ),
    "results of a node with several": (
        one("Split", outputs=("x_1", "x_0"), axis=0, num_outputs=2, opset=18),
        {"x_1": FED[:1], "x_0": FED[1:]},
    ),
    "the result of a subgraph": (
        model(
            [
                helper.make_node(
                    "If", ["c"], ["y"], then_branch=branch("z"), else_branch=branch("then_z")
                ),
                relu("z"),
            ],
            [value("x"), value("c", (), onnx.TensorProto.BOOL)],
            ["y", "z"],
        ),
        {"y": FED.clip(0), "z": FED.clip(0)},
    ),
}
CASES = pytest.mark.parametrize(("proto", "expected"), MODELS.values(), ids=MODELS)


def feeds_for(proto: onnx.ModelProto) -> dict[str, Any]:
    weights = {tensor.name for tensor in proto.graph.initializer}
    return {
        info.name: FED if info.type.tensor_type.elem_type == FLOAT else np.array(True)
        for info in proto.graph.input
        if info.name not in weights
    }


def check(results: dict[str, Any], expected: dict[str, Any]) -> None:
    assert list(results) == list(expected)
    for name, array in expected.items():
        np.testing.assert_array_equal(results[name], FED.clip(0) if array is None else array)


@CASES
def test_evaluated(proto: onnx.ModelProto, expected: dict[str, Any]) -> None:
    check(evaluate(import_onnx(proto), feeds_for(proto)), expected)


@pytest.mark.jit
@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
@CASES
def test_run(proto: onnx.ModelProto, expected: dict[str, Any], backend: str) -> None:
    net = glow_nb.compile(proto, backend=backend, threads=1)
    feeds = feeds_for(proto)
    assert list(net.inputs) == list(feeds)
    assert list(net.outputs) == list(expected)
    results = net.run(feeds)
    check(results, expected)
    for name, array in results.items():
        assert name not in feeds or not np.shares_memory(array, feeds[name])


@CASES
def test_through_text(proto: onnx.ModelProto, expected: dict[str, Any], tmp_path: Path) -> None:
    net = glow_nb.compile(proto, backend="interpreter")
    for level in (import_onnx(proto), net.program):
        save_text(level, tmp_path / "net.glow")
        again = glow_nb.compile(load_text(tmp_path / "net.glow"), backend="interpreter")
        check(again.run(feeds_for(proto)), expected)


@CASES
def test_command_line(proto: onnx.ModelProto, expected: dict[str, Any], tmp_path: Path) -> None:
    onnx.save(proto, tmp_path / "net.onnx")
    options = ["run", str(tmp_path / "net.onnx"), "--save", str(tmp_path / "out.npz")]
    for name, array in feeds_for(proto).items():
        np.save(tmp_path / f"{name}.npy", array)
        options.append(f"--input={name}={tmp_path / name}.npy")
    result = CliRunner().invoke(main, [*options, "--backend", "interpreter"])
    assert result.exit_code == 0, result.output
    with np.load(tmp_path / "out.npz") as saved:
        check(dict(saved), expected)


def test_fixed_input_that_is_an_output_keeps_its_name() -> None:
    proto = model([relu()], outputs=["x", "y"])
    function = import_onnx(proto, constants={"x": FED})
    assert function.inputs == ()
    check(evaluate(function, {}), {"x": FED, "y": None})


def test_symbolic_input_that_is_an_output_keeps_its_name() -> None:
    net = glow_nb.compile(model([], [value("x", ("n", 3))], ["x"]), backend="interpreter")
    check(net.run(FED), {"x": FED})
