"""Networks with open sizes are written with all their programs, and run without the model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import glow_nb
from glow_nb.base.errors import FeedError, GlowError, ModelError, UnsupportedError
from glow_nb.base.size import Symbol
from glow_nb.base.types import Array, ElementKind, TensorType
from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.network.dynamic import DynamicNetwork
from glow_nb.network.network import CompiledNetwork
from glow_nb.network.saved.files import CONSTANTS, MANIFEST
from tests.unit.network.saved.models import (
    cut_model,
    dense_model,
    expected,
    in_a_new_process,
    needs_loader,
    rewritten,
)

pytestmark = needs_loader


def rows(count: int) -> Array:
    return np.linspace(-2, 2, 4 * count, dtype=np.float32).reshape(count, 4)


@pytest.fixture(scope="module")
def compiled() -> DynamicNetwork:
    net = glow_nb.compile(dense_model(rows="n"), sizes={"n": (1, 64)}, threads=1)
    assert isinstance(net, DynamicNetwork)
    net.run({"x": rows(8)})
    return net


def test_one_program_for_all_sizes_is_a_network_of_its_own(
    compiled: DynamicNetwork, tmp_path: Path
) -> None:
    program = compiled.variants[0]
    program.save(tmp_path / "net")
    loaded = glow_nb.load_compiled(tmp_path / "net")
    assert isinstance(loaded, CompiledNetwork)
    assert (loaded.inputs, loaded.outputs) == (program.inputs, program.outputs)
    assert repr(loaded) == repr(program) and loaded.guards == program.guards
    assert str(loaded.program) == str(program.program)
    assert str(loaded.function) == str(program.function)
    assert loaded.source == program.source and loaded.kernels == program.kernels
    assert loaded.profile({"x": rows(3)}, runs=1, limits=False)
    for count in (1, 3, 64):
        y = loaded.run({"x": rows(count)})["y"]
        np.testing.assert_array_equal(y, program.run({"x": rows(count)})["y"])
        np.testing.assert_allclose(y, expected(0, rows(count)), rtol=1e-5, atol=1e-6)
    with pytest.raises(FeedError, match=r"says 65, which is outside its range 1\.\.64"):
        loaded.run({"x": rows(65)})
    loaded.save(tmp_path / "again")
    assert repr(glow_nb.load_compiled(tmp_path / "again")) == repr(program)


def sums(count: int) -> Array:
    return np.repeat(rows(count)[-10:].sum(1, keepdims=True), 24, axis=1)


def test_all_programs_are_written_with_one_copy_of_the_weights(tmp_path: Path) -> None:
    net = glow_nb.compile(cut_model(), sizes={"n": (1, 64)}, hints={"n": 32}, threads=1)
    for count in (30, 5):
        net.run({"x": rows(count)})
    own = net.prepare({"n": 7}).result()
    assert isinstance(net, DynamicNetwork) and len(net.variants) == 3
    net.save(tmp_path / "net")
    assert (tmp_path / "net" / CONSTANTS).stat().st_size < own.memory.constant_bytes + 2 * 4096
    loaded = glow_nb.load_compiled(tmp_path / "net")
    assert isinstance(loaded, DynamicNetwork) and repr(loaded) == repr(net)
    assert [v.sizes for v in loaded.variants] == [v.sizes for v in net.variants]
    assert [v.guards for v in loaded.variants] == [v.guards for v in net.variants]
    for count in (1, 7, 9, 10, 64, 7):
        y = loaded.run({"x": rows(count)})["y"]
        np.testing.assert_array_equal(y, net.run({"x": rows(count)})["y"])
        np.testing.assert_allclose(y, sums(count), rtol=1e-5, atol=1e-5)


def test_a_loaded_network_has_all_views_of_the_compiled_one(
    compiled: DynamicNetwork, tmp_path: Path
) -> None:
    compiled.save(tmp_path / "net")
    loaded = glow_nb.load_compiled(tmp_path / "net")
    assert isinstance(loaded, DynamicNetwork)
    assert (loaded.inputs, loaded.outputs) == (compiled.inputs, compiled.outputs)
    assert str(loaded.inputs["x"]) == "float32<n x 4>"
    assert str(loaded.program) == str(compiled.program)
    assert str(loaded.function) == str(compiled.function)
    assert str(loaded.pipeline) == str(compiled.pipeline)
    assert str(loaded.memory) == str(compiled.memory)
    assert loaded.source == compiled.source and loaded.kernels == compiled.kernels
    x, y = rows(3), np.zeros((3, 24), np.float32)
    assert loaded.profile({"x": x}, runs=1, limits=False)
    assert loaded.run({"x": x}, into={"y": y})["y"] is y
    np.testing.assert_array_equal(loaded.bind({"x": x})()["y"], y)
    watched = loaded.run({"x": x}, watch=[loaded.value_names[0]])
    np.testing.assert_array_equal(watched["y"], y)
    assert len(watched) == 2


def test_sizes_that_no_program_is_for_are_refused_by_guard_and_sizes(tmp_path: Path) -> None:
    net = glow_nb.compile(cut_model(), sizes={"n": (1, 64)}, hints={"n": 32}, threads=1)
    net.save(tmp_path / "net")
    loaded = glow_nb.load_compiled(tmp_path / "net")
    for count in (3, 4, 5, 6, 7):  # no advice to prepare sizes comes up
        with pytest.raises(FeedError, match=rf"sizes n = {count}: .* for sizes where n - 10 >= 0"):
            loaded.run({"x": rows(count)})
    with pytest.raises(FeedError, match=r"input 'x' says 65, which is outside its range 1\.\.64"):
        loaded.run({"x": rows(65)})
    with pytest.raises(UnsupportedError, match="no model that could be compiled for more sizes"):
        loaded.prepare({"n": 3})
    np.testing.assert_allclose(loaded.run({"x": rows(12)})["y"], sums(12), rtol=1e-5, atol=1e-5)


def test_a_network_of_single_sizes_is_saved_with_those_that_it_has(tmp_path: Path) -> None:
    builder = Builder("tanh")
    x = builder.input("x", TensorType(ElementKind.FLOAT32, (Symbol("n", 4).size, 4)))
    builder.save(builder.emit(ops.Tanh(x)), "y")
    net = glow_nb.compile(builder.function(), sizes="each", threads=1)
    with pytest.raises(GlowError, match="is not compiled for any sizes yet"):
        net.save(tmp_path / "net")
    y = net.run({"x": rows(3)})["y"]
    net.save(tmp_path / "net")
    loaded = glow_nb.load_compiled(tmp_path / "net")
    np.testing.assert_array_equal(loaded.run({"x": rows(3)})["y"], y)
    with pytest.raises(FeedError, match="sizes n = 4: the saved network has programs for n = 3"):
        loaded.run({"x": rows(4)})


def test_sizes_that_were_made_numbers_stay_so(tmp_path: Path) -> None:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    b = numpy_helper.from_array(np.ones((8, 4), np.float32), "b")
    graph = helper.make_graph([helper.make_node("Add", ["x", "b"], ["y"])], "add", [x], [y], [b])
    opsets = [helper.make_opsetid("", 17)]
    net = glow_nb.compile(
        helper.make_model(graph, opset_imports=opsets, ir_version=8),
        sizes={},
        hints={"n": 8},
        threads=1,
    )
    net.save(tmp_path / "net")
    loaded = glow_nb.load_compiled(tmp_path / "net")
    assert isinstance(net, DynamicNetwork) and isinstance(loaded, DynamicNetwork)
    assert loaded.specialized == net.specialized != ()
    np.testing.assert_array_equal(loaded.run(rows(8))["y"], rows(8) + 1)
    with pytest.raises(FeedError, match="input 'x' says 5, and the program has 8 as a number"):
        loaded.run(rows(5))


def test_shapes_of_no_program_are_refused_by_what_there_is(tmp_path: Path) -> None:
    """A width that the model fixes is a number in each program, the number of rows is open."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", "m"])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    shape = numpy_helper.from_array(np.array([0, 2, 2]), "shape")
    nodes = [helper.make_node("Reshape", ["x", "shape"], ["y"])]
    graph = helper.make_graph(nodes, "reshape", [x], [y], [shape])
    opsets = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    net = glow_nb.compile(model, threads=1)
    net.run(rows(3))
    net.save(tmp_path / "net")
    loaded = glow_nb.load_compiled(tmp_path / "net")
    assert loaded.run(rows(5))["y"].shape == (5, 2, 2)
    with pytest.raises(FeedError, match=r"sizes n = 2, m = 6: no program .* float32<n x 4>"):
        loaded.run(np.zeros((2, 6), np.float32))


@pytest.mark.parametrize(
    ("opened", "problem"),
    [
        (3, "no border of a model"),
        ({"inputs": [["x", "float33", [1]]]}, "no border of a model"),
        ({"inputs": [["x"]]}, "no border of a model"),
    ],
)
def test_a_made_up_border_is_refused(
    compiled: DynamicNetwork, tmp_path: Path, opened: Any, problem: str
) -> None:
    compiled.save(tmp_path / "net")
    text = json.loads((tmp_path / "net" / MANIFEST).read_text())["opened"]
    changed = text | opened if isinstance(opened, dict) else opened
    with pytest.raises(ModelError, match=problem):
        glow_nb.load_compiled(rewritten(tmp_path / "net", opened=changed))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("functions",), {}),
        (("functions", 0, "defaults"), 3),
        (("functions", 0, "threads"), None),
        (("functions", 0, "layout", "symbol"), None),
        (("functions", 0, "layout", "inputs", 0), []),
        (("functions", 0, "layout", "inputs", 0, 2), ["m", 4]),
        (("functions", 0, "layout", "outputs", 0, 2, 0), "n/0"),
        (("functions", 0, "layout", "open", "sizes"), "<n in 8..1>"),
        (("functions", 0, "layout", "open", "order"), [float("inf")]),
        (("functions", 0, "layout", "open", "windows"), [["binding", 70, 0]]),
        (("opened", "general"), float("inf")),
        (("versions",), 3),
    ],
)
def test_a_made_up_manifest_is_refused(
    compiled: DynamicNetwork, tmp_path: Path, path: tuple[Any, ...], value: Any
) -> None:
    compiled.save(tmp_path / "net")
    changed = json.loads((tmp_path / "net" / MANIFEST).read_text())
    place = changed
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    with pytest.raises(ModelError, match=str(tmp_path / "net")):
        glow_nb.load_compiled(rewritten(tmp_path / "net", **changed))


def test_another_process_runs_it_without_compiler_and_graph(
    compiled: DynamicNetwork, tmp_path: Path
) -> None:
    compiled.save(tmp_path / "net")
    script = f"""
import sys, numpy as np, glow_nb
net = glow_nb.load_compiled({str(tmp_path / "net")!r})
for count in (3, 64):
    x = np.linspace(-2, 2, 4 * count, dtype=np.float32).reshape(count, 4)
    print(net.run({{"x": x}})["y"].tobytes().hex())
found = {{"numba", "llvmlite", "onnx", "glow_nb.hlir", "glow_nb.llir"}} & set(sys.modules)
assert not found, found
"""
    ys = [compiled.run({"x": rows(count)})["y"].tobytes().hex() for count in (3, 64)]
    assert in_a_new_process(script, tmp_path / "cache").split() == ys
