"""Engines side by side: what is printed of several precisions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from experiments.benchmarks import duel
from glow_nb.tools.duel.contest import Measurement
from tests.unit.commands.samples import write_dense


def test_each_precision_has_its_ratio(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def contest(path: str, feeds: object, **given: object) -> dict[str, Measurement]:
        assert given["precisions"] == ["bfloat16", "default"]
        ones = [np.ones((2, 4), np.float32)]
        return {
            "glow_nb bfloat16": Measurement(times=[1.0], outputs=ones, computes="bfloat16"),
            "onnxruntime": Measurement(times=[6.0], outputs=ones, computes="float32"),
            "openvino bfloat16": Measurement(times=[2.0], outputs=ones, computes="bfloat16"),
            "glow_nb": Measurement(times=[2.0], outputs=ones, computes="float32"),
            "openvino default": Measurement(missing="it stopped"),
        }

    monkeypatch.setattr(duel, "duel", contest)
    model = str(write_dense(tmp_path))
    duel.main([model, model, "--precision", "bfloat16", "default"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "dense.onnx threads=1, errors from float64"
    assert lines[1].split()[:3] == ["glow_nb", "bfloat16", "first"]
    assert "error " in lines[1]
    assert lines[5].split(maxsplit=2) == ["openvino", "default", "left out: it stopped"]
    assert lines[6].strip().startswith("onnxruntime computes no float32 model in bfloat16")
    assert lines[7:9] == [
        "  bfloat16: ratio 2.000   of medians 2.000",
        "  default: ratio 3.000   of medians 3.000",
    ]
    assert lines[-1].startswith("geometric means over 2 models in default: ratio 3.000")
    with pytest.raises(SystemExit):
        duel.main([model, "--precision", "fp8"])
