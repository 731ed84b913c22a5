"""What README says can be typed can be typed: its Python and its commands, on a small model."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.unit.cli_samples import call, save_array

README = Path(__file__).parents[2] / "README.md"
MEASURES = ("profile", "bench", "machine")
"""Commands that take time to measure; they have tests of their own."""


def blocks(language: str) -> list[str]:
    """Return the code of README in *language*, block by block."""
    text = README.read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def commands() -> list[str]:
    """Return the calls of ``glow-nb`` in README, but those that measure."""
    lines = (
        line.partition("  #")[0].strip() for block in blocks("sh") for line in block.split("\n")
    )
    found = [line for line in lines if line.startswith("glow-nb ")]
    return [line for line in found if line.split()[1] not in MEASURES]


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Go to a folder with a small ``resnet50.onnx``, the same as ``model.onnx``, and an input."""
    rng = np.random.default_rng(0)
    statistics = ("scale", "shift", "mean", "variance")
    weights = {"w": rng.normal(size=(2, 3, 7, 7)), **{n: rng.uniform(1, 2, 2) for n in statistics}}
    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["data", "w"], ["a"], name="conv", strides=[8, 8]),
            helper.make_node("BatchNormalization", ["a", *statistics], ["b"], name="bn"),
            helper.make_node("Relu", ["b"], ["c"], name="relu"),
            helper.make_node("MaxPool", ["c"], ["y"], name="pool", kernel_shape=[2, 2]),
        ],
        "net",
        [helper.make_tensor_value_info("data", TensorProto.FLOAT, [1, 3, 224, 224])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 2, 27, 27])],
        [numpy_helper.from_array(v.astype(np.float32), k) for k, v in weights.items()],
    )
    opsets = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    for name in ("resnet50.onnx", "model.onnx"):
        onnx.save(model, tmp_path / name)
    save_array(tmp_path / "images.npy", rng.random((1, 3, 224, 224), np.float32))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.jit
def test_commands(models: Path) -> None:
    assert {line.split()[1] for line in commands()} >= {"run", "dump", "diff", "bisect", "check"}
    # what is dumped in a later block is read in an earlier one
    for line in sorted(commands(), key=lambda line: "--output" not in line):
        result = call(*shlex.split(line)[1:])
        assert result.exit_code == 0, f"{line}: {result.output}"
    assert (models / "steps" / "00-import.glow").exists()
    assert (models / "out.npz").exists()


@pytest.mark.jit
def test_python(models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    namespace: dict[str, object] = {}
    for number, block in enumerate(blocks("python")):
        exec(compile(block, f"README.md, block {number}", "exec"), namespace)
    assert (models / "arena.png").exists()
    assert "conv, bn, relu" in capsys.readouterr().out
