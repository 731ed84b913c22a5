"""Memory of the process that compiles, and of one that finds what was compiled."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.unit.network.saved.models import in_a_new_process, needs_loader

pytestmark = [needs_loader, pytest.mark.slow]

WIDTH, LAYERS = 2048, 6
LAYER_BYTES = 4 * WIDTH * WIDTH

SCRIPT = """
import json, threading, numpy as np, glow_nb

def memory(field):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) << 10 for line in status if line.startswith(field))

began = memory("VmRSS")
net = glow_nb.compile({path!r}, threads=2)
y = net.run({{"x": np.ones((1, {width}), np.float32)}})["y"]
for thread in threading.enumerate():
    if thread.name == "glow_nb cache":
        thread.join()
private = 0
with open("/proc/self/smaps") as maps:
    for line in maps:
        words = line.split()
        if "-" in words[0] and ":" not in words[0]:
            is_constants = words[-1].endswith("constants.bin")
        elif is_constants and words[0].startswith("Anonymous"):
            private += int(words[1]) << 10
print(json.dumps([began, memory("VmRSS"), memory("VmHWM"), private, float(y.sum())]))
"""


def dense_layers(path: Path) -> None:
    """Write a chain of matrix products to *path*."""
    rng = np.random.default_rng(0)
    weights = [rng.standard_normal((WIDTH, WIDTH)).astype(np.float32) for _ in range(LAYERS)]
    names = ["x", *(f"h{number}" for number in range(LAYERS - 1)), "y"]
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", [names[number], f"w{number}"], [names[number + 1]])
            for number in range(LAYERS)
        ],
        "layers",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, WIDTH])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, WIDTH])],
        [numpy_helper.from_array(w, f"w{number}") for number, w in enumerate(weights)],
    )
    opset = [helper.make_opsetid("", 20)]
    onnx.save_model(helper.make_model(graph, opset_imports=opset, ir_version=9), path)


def test_who_compiles_takes_little_more_than_the_network(tmp_path: Path) -> None:
    dense_layers(tmp_path / "model.onnx")
    script = SCRIPT.format(path=str(tmp_path / "model.onnx"), width=WIDTH)
    _, steady, peak, _, y = json.loads(in_a_new_process(script, tmp_path / "cache"))
    assert peak <= 1.3 * steady + LAYER_BYTES
    began, found, _, private, again = json.loads(in_a_new_process(script, tmp_path / "cache"))
    assert again == y
    assert found - began <= LAYERS * LAYER_BYTES + (45 << 20)
    assert private <= 0.05 * LAYERS * LAYER_BYTES
