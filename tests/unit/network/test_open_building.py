"""Bundles of networks with open sizes, as C programs run them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import glow_nb
from glow_nb.base.errors import UnsupportedError
from glow_nb.base.types import Array
from glow_nb.codegen.linked_code import IS_SUPPORTED
from tests.in_turn import marked_rows
from tests.unit.bundle.bundles import (
    build_example,
    emulator,
    needs_c,
    needs_elf,
    needs_x86,
    run_command,
    run_example,
)

pytestmark = [needs_elf, pytest.mark.jit]

HOSTILE = '"; rm -rf */ \\\n#error'


def model(
    batch: str = "batch", length: str = "length", operator: str = "MatMul"
) -> onnx.ModelProto:
    """Return a product with weights, a softmax, and a concat along an open size."""
    shape = (6, 24) if operator == "MatMul" else (6,)
    weight = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, length, 6])
    outputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in ("y", "twice")]
    nodes = [
        helper.make_node(operator, ["x", "weight"], ["product"]),
        helper.make_node("Softmax", ["product"], ["y"], axis=1),
        helper.make_node("Concat", ["y", "product"], ["twice"], axis=1),
    ]
    weights = [numpy_helper.from_array(weight, "weight")]
    graph = helper.make_graph(nodes, "open", [x], outputs, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def feed(batch: int, length: int) -> Array:
    x = np.random.default_rng(length).standard_normal((batch, length, 6)).astype(np.float32)
    return x


def check_example(
    program: Path, folder: Path, net: glow_nb.Network, sets: Sequence[tuple[int, int]]
) -> None:
    """Compare results of the example with runs of *net*, bit for bit."""
    for batch, length in sets:
        x = feed(batch, length)
        found = run_example(program, folder, [x], "-s", f"{batch},{length}", "-n", 3)
        for number, want in enumerate(net.run(x).values()):
            got = found[f"output_{number}"]
            assert (got.shape, got.tobytes()) == (want.shape, want.tobytes()), x.shape


@needs_c
def test_one_program_in_c_runs_for_all_sizes(tmp_path: Path) -> None:
    sizes = {"batch": (1, 8), "length": (1, 512)}
    net = glow_nb.compile(model(), sizes=sizes, hints={"length": 64}, threads=1)
    folder = tmp_path / "out"
    net.build(folder, name="net")
    program = build_example(folder, "-std=c99", "-fsanitize=address,undefined")
    check_example(program, folder, net, [(1, 1), (8, 512), (3, 17)])
    np.save(tmp_path / "x.npy", feed(9, 2))
    for given, problem in (
        ("9,2", "a size is outside of its range"),
        ("8,2", "wanted is"),
        ("8", "with commas between"),
        ("8,2,", "with commas between"),
    ):
        command = [program, folder / "net.constants", "-s", given, tmp_path / "x.npy"]
        with pytest.raises(AssertionError, match=problem):
            run_command(command, folder)
    with pytest.raises(AssertionError, match="-s: it is missing; give all sizes of the header"):
        run_command([program, folder / "net.constants", tmp_path / "x.npy"], folder)


@needs_c
@pytest.mark.usefixtures("sharing_is_free")
def test_a_pool_of_threads_takes_sizes_of_any_name(tmp_path: Path) -> None:
    onnx.save(model(HOSTILE, "*/", "Mul"), tmp_path / "model.onnx")
    folder = tmp_path / "out"
    glow_nb.build(tmp_path / "model.onnx", folder, name="net", threads=3)
    assert "rm -rf" not in (folder / "net.h").read_text()
    net = glow_nb.compile(tmp_path / "model.onnx", sizes={}, threads=3, specialize_after=None)
    program = build_example(folder, "-std=c11")
    check_example(program, folder, net, [(2, 50), (5, 1)])
    with pytest.raises(AssertionError, match="a size is outside of its range"):
        run_command([program, folder / "net.constants", "-s", "0,1", tmp_path / "x"], folder)


@needs_c
def test_sizes_that_are_given_are_fixed_and_others_stay_open(tmp_path: Path) -> None:
    onnx.save(model(), tmp_path / "model.onnx")
    folder = tmp_path / "out"
    glow_nb.build(
        *(tmp_path / "model.onnx", folder),
        name="net",
        shapes={"batch": 2},
        sizes={"length": (0, 40)},
        embed_constants=True,
    )
    manifest = json.loads((folder / "manifest.json").read_text())
    (size,) = manifest["sizes"]
    assert 0 < size.pop("example") <= 40
    assert size == {"name": "length", "least": 0, "greatest": 40}
    (x,) = manifest["functions"][0]["inputs"]
    assert x == {
        **{"name": "x", "type": "float32", "shape": [2, "length", 6]},
        **{"offset": None, "bytes": None},
    }
    if shutil.which("g++"):
        build_example(folder, "-x", "c++", compiler="g++")
    program = build_example(folder, "-std=c99", "-fsanitize=address,undefined")
    net = glow_nb.compile(model(), shapes={"batch": 2}, sizes={"length": (0, 40)}, threads=1)
    found = run_example(program, folder, [feed(2, 40)], "-s", 40)
    assert found["output_0"].tobytes() == net.run(feed(2, 40))["y"].tobytes()
    found = run_example(program, folder, [feed(2, 0)], "-s", 0)
    assert found["output_1"].shape == (2, 0, 24)


@pytest.mark.parametrize(
    ("architecture", "operator"),
    marked_rows(
        [("aarch64", "Mul"), ("aarch64", "MatMul"), ("riscv64", "MatMul")],
        only=[("aarch64", "Mul")],
    ),
)
def test_other_machines_run_for_all_sizes(architecture: str, operator: str, tmp_path: Path) -> None:
    run = emulator(architecture)
    onnx.save(model(operator=operator), tmp_path / "model.onnx")
    net = glow_nb.compile(tmp_path / "model.onnx", sizes={}, threads=1, specialize_after=None)
    folder = tmp_path / "out"
    net.build(folder, name="net", target=f"{architecture}-unknown-linux-gnu")
    program = build_example(folder, "-std=c99", compiler=f"{architecture}-linux-gnu-gcc")
    for batch, length in ((1, 1), (3, 21)):
        x = feed(batch, length)
        found = run_example(program, folder, [x], "-s", f"{batch},{length}", prefix=run)
        for number, want in enumerate(net.run(x).values()):
            np.testing.assert_allclose(found[f"output_{number}"], want, rtol=1e-5, atol=1e-6)


@needs_c
@needs_x86
@pytest.mark.slow
def test_each_processor_lays_out_its_own_program(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    glow_nb.build(
        *(model(), folder),
        name="net",
        cpu=["x86-64-v2", "x86-64-v3"],
        sizes={"batch": (1, 8)},
        hints={"length": 64},
    )
    program = build_example(folder, "-std=c99")
    net = glow_nb.compile(model(), sizes={}, threads=1, specialize_after=None)
    found = run_example(program, folder, [feed(2, 70)], "-s", "2,70")
    np.testing.assert_allclose(found["output_0"], net.run(feed(2, 70))["y"], rtol=1e-5, atol=1e-6)


def rows_of(count: int) -> Array:
    return np.arange(-9, 3 * count - 9, dtype=np.float32).reshape(count, 3)


@needs_c
def test_of_several_programs_the_first_is_built_and_refuses_sizes_of_the_others(
    tmp_path: Path,
) -> None:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    nodes = [  # of the last ten rows, or of all if there are fewer: for these there is a guard
        helper.make_node("Slice", ["x", "begin", "end"], ["last"]),
        helper.make_node("Relu", ["last"], ["y"]),
    ]
    numbers = {"begin": np.array([-10]), "end": np.array([1 << 40])}
    weights = [numpy_helper.from_array(array, name) for name, array in numbers.items()]
    graph = helper.make_graph(nodes, "last", [x], [y], weights)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    net, folder = glow_nb.compile(proto, sizes={}, hints={"n": 32}, threads=1), tmp_path / "out"
    net.run(rows_of(5))  # which gets a second program
    net.build(folder, name="net")
    (condition,) = json.loads((folder / "manifest.json").read_text())["conditions"]
    assert f"condition: {condition} */" in (folder / "net.h").read_text()
    program = build_example(folder, "-std=c99", "-fsanitize=address,undefined")
    for n in (10, 13):
        found = run_example(program, folder, [rows_of(n)], "-s", n)
        np.testing.assert_array_equal(found["output_0"], np.maximum(rows_of(n)[-10:], 0))
    with pytest.raises(AssertionError, match="where the conditions of the header hold"):
        run_example(program, folder, [rows_of(5)], "-s", 5)
    if IS_SUPPORTED:
        net.save(tmp_path / "saved")
        glow_nb.load_compiled(tmp_path / "saved").build(tmp_path / "again", name="net")
        again = {path.name: path.read_bytes() for path in (tmp_path / "again").iterdir()}
        assert again == {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_network_without_a_program_for_all_sizes_is_no_bundle(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match=r"leaves sizes open .*batch.*sizes=\{\}"):
        glow_nb.compile(model(), sizes="each").build(tmp_path / "out")
