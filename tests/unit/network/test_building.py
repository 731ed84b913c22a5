"""``net.build`` and ``glow_nb.build``: what is written, computed by C programs, and refused."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

import glow_nb
from glow_nb.base.types import Array, TensorType
from glow_nb.codegen.c_library import C_LIBRARY
from glow_nb.codegen.linked_code import IS_SUPPORTED
from glow_nb.codegen.symbols import read_symbols
from glow_nb.hlir import ops
from glow_nb.hlir.graph import Function
from glow_nb.hlir.module import Module
from tests.unit.bundle.bundles import (
    WARNINGS,
    build_example,
    counting_module,
    needs_c,
    needs_elf,
    run_command,
    run_example,
)
from tests.unit.network.saved.models import X, dense_model, expected
from tests.unit.network.stateful import counter, new_total

pytestmark = [needs_elf, pytest.mark.jit]


@pytest.fixture(scope="module")
def net() -> glow_nb.Network:
    return glow_nb.compile(dense_model(), threads=1)


def members(folder: Path) -> list[bytes]:
    """Return the objects in the archive of *folder*."""
    content = next(folder.glob("lib*.a")).read_bytes()
    place, found = 8, []
    while place < len(content):
        size = int(content[place + 48 : place + 58])
        found.append(content[place + 60 : place + 60 + size])
        place += 60 + size + size % 2
    return found[1:]  # the first one is the table of symbols


def test_a_bundle_has_code_constants_header_example_and_manifest(
    net: glow_nb.Network, tmp_path: Path
) -> None:
    net.build(tmp_path / "out", name="dense")
    names = {path.name for path in (tmp_path / "out").iterdir()}
    texts = {"main.c", "Makefile", "CMakeLists.txt", "README.md", "manifest.json"}
    assert names == {"libdense.a", "dense.h", "dense.constants", *texts}
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert manifest["files"] == sorted(names)
    assert (tmp_path / "out" / "dense.constants").stat().st_size == manifest["constants_bytes"]
    ((function,), (x,)) = manifest["functions"], manifest["functions"][0]["inputs"]
    assert (function["symbol"], x["name"], x["shape"]) == ("dense_run", "x", [2, 4])
    assert manifest["made_from"]["glow_nb"]


def test_code_has_no_symbol_of_python_and_shows_only_its_functions(
    net: glow_nb.Network, tmp_path: Path
) -> None:
    net.build(tmp_path / "out", name="dense")
    (code,) = map(read_symbols, members(tmp_path / "out"))
    assert code is not None
    assert code.defined == {f"dense_{n}" for n in ("initialize", "variant", "run", "run_share")}
    assert code.undefined <= C_LIBRARY


def test_equal_networks_give_equal_bundles(net: glow_nb.Network, tmp_path: Path) -> None:
    for folder in ("one", "two"):
        net.build(tmp_path / folder, name="dense")
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes(), path.name


def test_names_of_the_model_stand_in_texts_as_literals_alone(tmp_path: Path) -> None:
    glow_nb.compile(counting_module(), threads=1).build(tmp_path / "out", name="net")
    for path in (tmp_path / "out").iterdir():
        if path.suffix in {".h", ".c", ".md", ".txt"} or path.name == "Makefile":
            text = path.read_text()
            assert "x */ y" not in text and "\n#define z" not in text, path.name
    header = (tmp_path / "out" / "net.h").read_text()
    assert '"y\\012#define z"' in header
    assert "int net_step_1(const void *constants" in header


@needs_c
@pytest.mark.parametrize("dialect", ["-std=c99", "c++"])
@pytest.mark.parametrize("form", ["archive", "shared", "embed"])
def test_the_example_computes_the_same_bits(
    net: glow_nb.Network, tmp_path: Path, dialect: str, form: str
) -> None:
    if dialect == "c++" and shutil.which("g++") is None:
        pytest.skip("there is no C++ compiler g++")
    folder = tmp_path / "out"
    net.build(folder, name="dense", shared="shared" in form, embed_constants="embed" in form)
    program = (
        build_example(folder, dialect)
        if dialect != "c++"
        else build_example(folder, "-x", "c++", compiler="g++")
    )
    if form == "shared":  # which is found by its name, and may have moved
        assert os.fsencode(folder / "libdense.so") not in program.read_bytes()
    found = run_example(program, folder, [X])
    assert list(found) == ["output_0"]
    assert found["output_0"].tobytes() == net.run({"x": X})["y"].tobytes()
    np.testing.assert_allclose(found["output_0"], expected(), rtol=1e-5, atol=1e-6)


@needs_c
def test_steps_on_state_are_taken_from_c(tmp_path: Path) -> None:
    net, one = glow_nb.compile(counting_module(), threads=1), np.ones(3, np.float32)
    folder = tmp_path / "out"
    net.build(folder, name="net")
    program = build_example(folder, "-std=c99", "-fsanitize=address,undefined")
    found = run_example(program, folder, [one], "-f", "step/1", "-n", 5)
    np.testing.assert_array_equal(found["state_0"], 6 * one)
    np.testing.assert_array_equal(found["output_0"], 6 * one)


@needs_c
@pytest.mark.usefixtures("sharing_is_free")
def test_a_pool_of_threads_computes_the_same_bits(tmp_path: Path) -> None:
    net = glow_nb.compile(dense_model(), threads=3)
    folder = tmp_path / "out"
    net.build(folder, name="dense")
    assert (folder / "dense_pool.c").exists()
    program = build_example(folder, "-std=c11")
    found = run_example(program, folder, [X], "-n", 50)
    assert found["output_0"].tobytes() == net.run({"x": X})["y"].tobytes()


@needs_c
def test_make_and_cmake_build_the_example(net: glow_nb.Network, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    net.build(folder, name="dense")
    for tool, command in {
        "make": [["make"]],
        "cmake": [["cmake", "-B", "build"], ["cmake", "--build", "build"]],
    }.items():
        if shutil.which(tool) is None:
            pytest.skip(f"there is no {tool}")
        for words in command:
            run_command(words, folder)
    found = run_example(folder / "dense_example", folder, [X])
    again = run_example(folder / "build" / "dense_example", folder, [X])
    assert found["output_0"].tobytes() == again["output_0"].tobytes()
    net.build(folder, name="dense")  # what was built there is no reason to refuse


@needs_c
def test_the_example_refuses_other_arrays(net: glow_nb.Network, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    net.build(folder, name="dense")
    program = build_example(folder, "-std=c99", "-fsanitize=address,undefined")
    path = tmp_path / "input_0.npy"
    others: list[Array] = [X[:1], X.astype(np.float64), np.asfortranarray(X), X.reshape(8)]
    for array in others:
        with pytest.raises(AssertionError, match="its array is"):
            run_example(program, folder, [array])
    np.save(path, X)
    for content in (b"", path.read_bytes()[:-1], b"x" * 200, path.read_bytes() + b"1"):
        path.write_bytes(content)
        with pytest.raises(AssertionError, match=r"\.npy"):
            run_command([program, folder / "dense.constants", path], folder)


def kinds() -> Function:
    """Return a function with inputs and outputs of many kinds, some of them empty or numbers."""
    b = glow_nb.Builder("kinds")
    for kind in ("float16", "bfloat16", "float64", "int8", "uint8", "int16", "int64", "bool"):
        for number, shape in enumerate(("3 x 2", "", "0 x 4")):
            x = b.input(f"{kind}_{number}", f"{kind}<{shape}>")
            b.save(b.emit(ops.Concat((x, x), axis=0)) if shape else x, f"{kind}_{number}_out")
    return b.function()


@needs_c
def test_arrays_of_all_kinds_and_shapes_are_read_and_written(tmp_path: Path) -> None:
    net, folder = glow_nb.compile(kinds(), threads=1), tmp_path / "out"
    net.build(folder, name="kinds")
    program = build_example(folder, "-std=c99", "-fsanitize=address,undefined")
    feeds = {
        name: np.arange(type.size).reshape(type.shape).astype(type.kind.dtype)
        for name, type in net.inputs.items()
        if isinstance(type, TensorType)
    }
    found, want = run_example(program, folder, list(feeds.values())), net.run(feeds)
    for number, (name, array) in enumerate(want.items()):
        got = found[f"output_{number}"]
        assert (got.shape, got.tobytes()) == (array.shape, array.tobytes()), name
    inputs = [tmp_path / f"input_{number}.npy" for number in range(len(feeds))]
    said = run_command([program, folder / "kinds.constants", *inputs], folder)
    half = np.arange(4, dtype=np.float16).view(np.uint16)
    printed = " ".join(f"0x{bits:04x}" for bits in half)
    assert f"of float16: {printed}" in said


@needs_c
@pytest.mark.parametrize("axis", [0, 1])
def test_of_an_output_whose_size_a_run_tells_what_counts_is_written(
    axis: int, tmp_path: Path
) -> None:
    node = helper.make_node("NonZero" if axis else "Unique", ["x"], ["y"])
    graph = helper.make_graph(
        [node],
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 4])],
        [
            helper.make_tensor_value_info(
                "y", TensorProto.INT64 if axis else TensorProto.FLOAT, None
            )
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    net, folder = glow_nb.compile(model, threads=1), tmp_path / "out"
    net.build(folder, name="net")
    program = build_example(folder, "-std=c99", "-fsanitize=address,undefined")
    x = np.array([[1, 0, 2, 0], [0, 0, 3, 1]], np.float32)
    found, (want,) = run_example(program, folder, [x]), net.run(x).values()
    assert found["output_0"].shape == want.shape
    np.testing.assert_array_equal(found["output_0"], want)
    said = run_command([program, folder / "net.constants", tmp_path / "input_0.npy"], folder)
    numbers = said.splitlines()[0].partition(": ")[2].split()
    assert list(map(float, numbers)) == want.ravel().tolist()


TWO = """
#include "one.h"
#include "two.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static unsigned char *memory(size_t bytes)
{
    unsigned char *found = (unsigned char *)malloc(bytes + 64);
    return found + (64 - (size_t)found % 64);
}

int main(void)
{
    unsigned char *tensors = memory(ONE_TENSORS_BYTES + TWO_TENSORS_BYTES), *other;
    unsigned char *arena = memory(ONE_ARENA_BYTES + TWO_ARENA_BYTES);
    const float x[8] = {-1, -2, 3, 4, 5, 6, 7, -8};
    int code;
    other = tensors + ONE_TENSORS_BYTES;
    code = one_initialize(one_constants, tensors) | two_initialize(two_constants, other);
    memcpy(tensors + ONE_RUN_INPUT_0_OFFSET, x, sizeof x);
    memcpy(other + TWO_RUN_INPUT_0_OFFSET, x, sizeof x);
    code |= one_run(one_constants, tensors, arena) | two_run(two_constants, other, arena);
    fwrite(tensors + ONE_RUN_OUTPUT_0_OFFSET, 1, ONE_RUN_OUTPUT_0_BYTES, stdout);
    fwrite(other + TWO_RUN_OUTPUT_0_OFFSET, 1, TWO_RUN_OUTPUT_0_BYTES, stdout);
    return code;
}
"""


@needs_c
def test_functions_may_be_called_as_anything_in_c_is(tmp_path: Path) -> None:
    """Names of two functions, of macros of the header, of types and keywords of C and C++."""
    hostile = ["INPUT_0_OFFSET", "Step", "step", "step_INPUT_0_BYTES", "STATE_0_OFFSET", "t"]
    hostile += ["FUNCTION_COUNT", "run_inputs", "t_2", "ARENA_BYTES", "cast", "in_pool", "while"]
    total = new_total()
    functions = tuple(counter(total, name) for name in hostile)
    net = glow_nb.compile(Module(functions), threads=1)
    for name in ("static", "STATIC", "run", "size"):
        folder = tmp_path / name
        net.build(folder, name=name)
        for compiler in (["cc", "-std=c99"], ["g++", "-x", "c++"]):
            if shutil.which(compiler[0]):
                run_command([*compiler, *WARNINGS, "-fsyntax-only", "main.c"], folder)
        manifest = json.loads((folder / "manifest.json").read_text())
        symbols = [function["symbol"] for function in manifest["functions"]]
        assert len(set(symbols)) == len(hostile)


@needs_c
def test_two_bundles_are_linked_into_one_program(tmp_path: Path) -> None:
    x = np.array([[-1, -2, 3, 4], [5, 6, 7, -8]], np.float32)
    nets = [glow_nb.compile(dense_model(seed), threads=1) for seed in (1, 2)]
    for net, name in zip(nets, ("one", "two"), strict=True):
        net.build(tmp_path / name, name=name, embed_constants=True)
    (tmp_path / "both.c").write_text(TWO)
    flags = ["-Wall", "-Wextra", "-Werror", "-std=c99", "-Ione", "-Itwo"]
    libraries = ["one/libone.a", "two/libtwo.a", "-lm"]
    run_command(["cc", *flags, "both.c", *libraries, "-o", "both"], tmp_path)
    done = subprocess.run([tmp_path / "both"], capture_output=True, timeout=60, check=True)
    want = b"".join(net.run({"x": x})["y"].tobytes() for net in nets)
    assert done.stdout == want


def test_what_was_saved_or_found_is_built_as_it_was_compiled(
    net: glow_nb.Network, tmp_path: Path
) -> None:
    if not IS_SUPPORTED:
        pytest.skip("this system maps no saved networks")
    net.save(tmp_path / "saved")
    loaded = glow_nb.load_compiled(tmp_path / "saved")
    for folder, each in (("one", net), ("two", loaded)):
        each.build(tmp_path / folder, name="dense")
    names = {path.name for path in (tmp_path / "one").iterdir()}
    for name in names:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
