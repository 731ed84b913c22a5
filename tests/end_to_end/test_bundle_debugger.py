"""gdb and a bundle with ``debug=True``: shared, for several processors, for other machines."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import glow_nb
from glow_nb.hlir.graph import Function
from glow_nb.hlir.ops import MatMul, Relu
from tests.unit.bundle.bundles import build_example, emulator, needs_c, needs_x86, run_example

pytestmark = [
    pytest.mark.jit,
    needs_c,
    pytest.mark.skipif(shutil.which("gdb") is None, reason="gdb is not installed"),
]

X = np.array([[1, -2, 3, -4], [5, 6, 7, 8]], np.float32)
W = np.arange(96, dtype=np.float32).reshape(4, 24) % 7 - 3


def small() -> Function:
    """Return a product whose first results are 10, 0, 0, 0."""
    b = glow_nb.Builder("small")
    product = b.emit(MatMul(b.input("x", "float32<2 x 4>"), b.constant("w", W)), name="product")
    b.save(b.emit(Relu(product), name="kept"), "y")
    return b.function()


def gdb(folder: Path, program: Sequence[object], *commands: str) -> str:
    """Return what gdb prints of *program*, with the commands of the bundle in *folder*."""
    before = ["set width 0", "set debuginfod enabled off"]
    before += [f"source {folder}/glow_nb_sources/gdb_commands.py", "set breakpoint pending on"]
    given = [word for command in (*before, *commands) for word in ("-ex", command)]
    return subprocess.run(
        ["gdb", "-nx", "-batch", *given, "--args", *map(str, program)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        check=True,
    ).stdout


@needs_x86
@pytest.mark.parametrize("shared", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_a_node_is_stopped_at_in_the_code_that_the_processor_takes(
    shared: bool, tmp_path: Path
) -> None:
    folder = tmp_path / "out"
    cpus = ["x86-64", "x86-64-v2"]
    glow_nb.build(small(), folder, name="small", debug=True, cpu=cpus, shared=shared)
    program = build_example(folder)
    np.testing.assert_array_equal(run_example(program, folder, [X])["output_0"], (X @ W).clip(0))
    call = [program, folder / "small.constants", tmp_path / "input_0.npy"]
    found = gdb(folder, call, "glow break product", "run", "finish", "glow operands 4")
    assert "Node product: program_" in found
    assert ".py:4\n" in found and "\n4\t    " in found  # the kernel's text
    assert ".glow:" in found and "packed_mat_mul @out %" in found  # that of the program
    assert "x : float32<2 x 4> at 0x" in found and ": 1, -2, 3, -4\n" in found


@pytest.mark.slow
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("architecture", ["aarch64", "riscv64"])
def test_lines_of_code_for_others_are_found(
    architecture: str, shared: bool, tmp_path: Path
) -> None:
    run, folder = emulator(architecture), tmp_path / "out"
    triple = f"{architecture}-unknown-linux-gnu"
    glow_nb.build(small(), folder, name="small", debug=True, target=triple, shared=shared)
    program = build_example(folder, compiler=f"{architecture}-linux-gnu-gcc")
    found = run_example(program, folder, [X], prefix=run)["output_0"]
    np.testing.assert_array_equal(found, (X @ W).clip(0))
    code = folder / "libsmall.so" if shared else program
    text = gdb(folder, [code], "glow break product")
    assert "Breakpoint 1 at 0x" in text and ".py, line 4." in text
    assert "Node product: program_" in text
