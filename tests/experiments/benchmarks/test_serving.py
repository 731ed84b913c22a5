"""The servers side by side, for a moment."""

from __future__ import annotations

import pytest

pytest.importorskip("uvicorn", reason="the server needs uvicorn")
pytest.importorskip("onnxruntime")

import onnx
from onnx import TensorProto, helper

from experiments.benchmarks import serving


def mean() -> onnx.ModelProto:
    """Return the mean of each channel of an image."""
    node = helper.make_node("GlobalAveragePool", ["x"], ["y"])
    graph = helper.make_graph(
        [node],
        "mean",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 3, 1, 1])],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.jit
@pytest.mark.slow
def test_each_engine_is_served(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(serving.MODELS, "resnet50", mean)
    engines = [serving.GLOW, serving.APART]
    few = ["--clients", "2", "--seconds", "0.2", "--rounds", "1"]
    serving.main(["--models", "resnet50", "--engines", *engines, *few])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("  ")[1] for line in lines[1:]] == engines
    assert all(float(line.split()[-4]) > 0 for line in lines[1:])
