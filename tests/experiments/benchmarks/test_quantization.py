"""The table of integers, at a size that takes no time."""

from __future__ import annotations

import numpy as np
import pytest

import glow_nb
from experiments.benchmarks import quantization
from experiments.training.regression import explained, network
from glow_nb import quant
from glow_nb.quant.schemas import SCHEMAS


@pytest.mark.slow
@pytest.mark.jit
def test_integers_have_a_line_of_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quantization, "RUNS", 1)
    images = np.random.default_rng(0).random((360, 8, 8, 1), np.float32)
    function = glow_nb.load(quantization.MODEL, shapes={"batch": len(images)})
    scores = glow_nb.compile(function, threads=1).run(images)["scores"]
    ranges = quant.calibrate(function, images, threads=1)
    made = quant.quantize(function, ranges, least_gain=0)
    line = quantization.row("integers", made, images, scores.argmax(1), scores)
    name, share, ratio, unit, *_ = line.split()
    assert (name, unit) == ("integers", "dB")
    assert float(share.rstrip("%")) > 97
    assert float(ratio) > 30


def test_no_schema_explains_less_of_a_regression(monkeypatch: pytest.MonkeyPatch) -> None:
    """The float network explains about half, as it does of real patients."""
    monkeypatch.setattr(quantization, "METHODS", ["minmax"])
    rng = np.random.default_rng(0)
    measured = rng.standard_normal((4000, 10)).astype(np.float32)
    asked = measured[:2000]  # of fewer, chance decides
    found = quantization.foretell(network(2000), measured, asked, backend="interpreter")
    came = found["float32"] + found["float32"].std() * rng.standard_normal((2000, 1))
    shares = {name: explained(foretold, came) for name, foretold in found.items()}
    assert list(shares) == ["float32", *(f"{schema}, minmax" for schema in SCHEMAS)]
    assert 0.3 < shares["float32"] < 0.7
    assert min(shares.values()) >= shares["float32"] - 0.005


@pytest.mark.jit
def test_no_schema_explains_less_of_real_patients(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("sklearn", reason="the patients are scikit-learn's")
    monkeypatch.setattr(quantization, "METHODS", ["minmax"])
    lines = quantization.regression_table(epochs=15)
    assert len(lines) == 1 + len(SCHEMAS)
    assert all(float(line.split()[-1]) >= -0.005 for line in lines)
