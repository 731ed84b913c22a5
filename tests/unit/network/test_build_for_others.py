"""``glow_nb.build`` for other processors: what runs in an emulator, and several in one bundle."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

import glow_nb
from glow_nb.base.errors import UnsupportedError
from glow_nb.hlir import ops
from glow_nb.hlir.graph import Function
from tests.unit.bundle.bundles import (
    build_example,
    emulator,
    needs_c,
    needs_x86,
    run_example,
)
from tests.unit.network.saved.models import X, dense_model, expected

pytestmark = pytest.mark.jit

IMAGE = np.random.default_rng(1).standard_normal((1, 6, 6, 3), np.float32)


def convolutional() -> Function:
    """Return a convolution with ReLU, a mean, and a softmax, whose exponential is vectors."""
    b = glow_nb.Builder("net")
    weight = np.random.default_rng(0).standard_normal((5, 3, 3, 3), np.float32)
    filter, bias = b.constant("filter", weight), b.constant("bias", np.zeros(5, np.float32))
    convolution = ops.Convolution(
        b.input("x", "float32<1 x 6 x 6 x 3>"),
        filter,
        bias,
        kernel=(3, 3),
        stride=(1, 1),
        pads=(1, 1, 1, 1),
        dilation=(1, 1),
    )
    y = b.emit(ops.ReduceMean(b.emit(ops.Relu(b.emit(convolution))), axes=(1, 2)))
    b.save(b.emit(ops.Softmax(y, axis=y.type.rank - 1)), "y")
    return b.function()


@pytest.mark.parametrize("architecture", ["aarch64", "riscv64"])
@pytest.mark.parametrize("threads", [1, pytest.param(3, marks=pytest.mark.slow)])
@pytest.mark.usefixtures("sharing_is_free")
def test_other_machines_compute_what_the_interpreter_does(
    architecture: str, threads: int, tmp_path: Path
) -> None:
    run = emulator(architecture)
    folder, triple = tmp_path / "out", f"{architecture}-unknown-linux-gnu"
    glow_nb.build(convolutional(), folder, target=triple, name="net", threads=threads)
    program = build_example(folder, "-std=c11", compiler=f"{architecture}-linux-gnu-gcc")
    found = run_example(program, folder, [IMAGE], prefix=run)["output_0"]
    want = glow_nb.compile(convolutional(), backend="interpreter").run(IMAGE)["y"]
    np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-6)


@needs_c
@needs_x86
def test_one_bundle_has_code_for_several_processors(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    glow_nb.build(dense_model(), folder, name="net", cpu=["x86-64-v2", "x86-64-v3"])
    manifest = json.loads((folder / "manifest.json").read_text())
    assert [cpu["name"] for cpu in manifest["cpus"]] == ["x86-64-v2", "x86-64-v3"]
    program = build_example(folder, "-std=c99")
    found = run_example(program, folder, [X])["output_0"]
    np.testing.assert_allclose(found, expected(), rtol=1e-5, atol=1e-6)


def test_a_network_of_a_file_is_built_for_others(tmp_path: Path) -> None:
    path = tmp_path / "dense.onnx"
    onnx.save(dense_model(), path)
    net, triple = glow_nb.compile(path, threads=1), "aarch64-unknown-linux-gnu"
    net.build(tmp_path / "arm", target=triple, threads=2)
    net.build(tmp_path / "level", cpu="x86-64-v2", target="x86_64-unknown-linux-gnu")
    found = [json.loads((tmp_path / n / "manifest.json").read_text()) for n in ("arm", "level")]
    assert [(one["target"], one["cpus"][0]["name"]) for one in found] == [
        (triple, "generic"),
        ("x86_64-unknown-linux-gnu", "x86-64-v2"),
    ]
    in_memory = glow_nb.compile(dense_model(), threads=1)
    with pytest.raises(UnsupportedError, match=r"it is no file; give it to glow_nb\.build"):
        in_memory.build(tmp_path / "out", target=triple)


def test_without_fused_arithmetic_products_call_no_library(tmp_path: Path) -> None:
    triple = "x86_64-unknown-linux-gnu"
    glow_nb.build(dense_model(), tmp_path / "out", name="net", target=triple, cpu="x86-64-v2")
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert not {"fma", "fmaf"} & set(manifest["needed_symbols"])
