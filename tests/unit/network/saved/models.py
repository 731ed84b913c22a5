"""Small models and processes for tests of networks on the disk."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import glow_nb
from glow_nb.base.types import Array
from glow_nb.codegen.linked_code import IS_SUPPORTED
from glow_nb.network.network import CompiledNetwork
from glow_nb.network.saved import kept
from glow_nb.network.saved.files import MANIFEST, SUMS
from glow_nb.network.saved.saved_executable import SavedExecutable
from glow_nb.system.file_digests import digest_of_file

needs_loader = pytest.mark.skipif(not IS_SUPPORTED, reason="Linux on x86-64 maps such code alone")

X: Array = np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4)


def dense_model(seed: int = 0, *, external: str = "", rows: int | str = 2) -> onnx.ModelProto:
    """Return ``y = relu(x @ w + b)``; *external* names a file that w is to lie in."""
    rng = np.random.default_rng(seed)
    weights = {
        "w": rng.standard_normal((4, 24)).astype(np.float32),
        "b": rng.standard_normal(24).astype(np.float32),
    }
    tensors = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    if external:
        onnx.external_data_helper.set_external_data(tensors[0], external)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["product"]),
        helper.make_node("Add", ["product", "b"], ["sum"]),
        helper.make_node("Relu", ["sum"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "dense",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [rows, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [rows, 24])],
        tensors,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


def cut_model() -> onnx.ModelProto:
    """Return the sums of the last ten rows of x with b, of all if there are fewer: a guard."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    weights = [
        numpy_helper.from_array(np.array([-10]), "begin"),
        numpy_helper.from_array(np.array([1 << 40]), "end"),
        numpy_helper.from_array(np.ones((4, 24), np.float32), "w"),
    ]
    nodes = [
        helper.make_node("Slice", ["x", "begin", "end"], ["last"]),
        helper.make_node("MatMul", ["last", "w"], ["y"]),
    ]
    graph = helper.make_graph(nodes, "cut", [x], [y], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def expected(seed: int = 0, x: Array = X) -> Array:
    """Return what the model of this *seed* computes, in float64."""
    rng = np.random.default_rng(seed)
    w = rng.standard_normal((4, 24)).astype(np.float32).astype(np.float64)
    b = rng.standard_normal(24).astype(np.float32).astype(np.float64)
    result: Array = np.maximum(x.astype(np.float64) @ w + b, 0)
    return result


def in_a_new_process(script: str, cache: Path) -> str:
    """Return what *script* prints in a process that keeps networks in *cache*."""
    environment = {**os.environ, "GLOW_NB_CACHE_DIR": str(cache)}
    environment.pop("GLOW_NB_CACHE_NETWORKS", None)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def wait_for_writers() -> None:
    for thread in threading.enumerate():
        if thread.name == kept.WRITER:
            thread.join()


def saved_model(folder: Path, seed: int = 0, *, external: str = "", rows: int | str = 2) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / "model.onnx"
    if external:
        (folder / external).unlink(missing_ok=True)  # or it would grow
    onnx.save_model(dense_model(seed, external=external, rows=rows), path)
    return path


def found(net: object) -> bool:
    """Return whether *net* comes from the cache; wait until it is there if not."""
    assert isinstance(net, CompiledNetwork)
    wait_for_writers()
    return isinstance(net.executable, SavedExecutable)


def y_of(net: glow_nb.Network) -> Array:
    return net.run({"x": X})["y"]


def close(net: glow_nb.Network, seed: int) -> bool:
    return bool(np.allclose(y_of(net), expected(seed), rtol=1e-5, atol=1e-6))


def rewritten(folder: Path, **changes: object) -> Path:
    """Return *folder*, whose manifest says something else, with the right sum."""
    text = json.loads((folder / MANIFEST).read_text()) | changes
    (folder / MANIFEST).write_text(json.dumps(text))
    old = next(line for line in (folder / SUMS).read_text().splitlines() if MANIFEST in line)
    new = f"{digest_of_file(folder / MANIFEST)}  {MANIFEST}"
    (folder / SUMS).write_text((folder / SUMS).read_text().replace(old, new))
    return folder
