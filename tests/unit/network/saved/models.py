"""Small models and processes for tests of networks on the disk."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from glow_nb.base.types import Array
from glow_nb.codegen.linked_code import IS_SUPPORTED

needs_loader = pytest.mark.skipif(not IS_SUPPORTED, reason="Linux on x86-64 maps such code alone")

X: Array = np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4)


def dense_model(seed: int = 0, *, external: str = "") -> onnx.ModelProto:
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
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 24])],
        tensors,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


def expected(seed: int = 0, x: Array = X) -> Array:
    """Return what the model of this *seed* computes, in float64."""
    rng = np.random.default_rng(seed)
    w = rng.standard_normal((4, 24)).astype(np.float32).astype(np.float64)
    b = rng.standard_normal(24).astype(np.float32).astype(np.float64)
    result: Array = np.maximum(x.astype(np.float64) @ w + b, 0)
    return result


def in_a_new_process(script: str, cache: Path) -> str:
    """Return what *script* prints in a process that keeps networks in *cache*."""
    kernels = os.environ["GLOW_NB_CACHE_DIR"]
    environment = {**os.environ, "GLOW_NB_CACHE_DIR": str(cache), "KERNELS": kernels}
    del environment["GLOW_NB_CACHE_NETWORKS"]
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
