"""The table of integers, at a size that takes no time."""

from __future__ import annotations

import numpy as np
import pytest

import glow_nb
from experiments import quantization
from glow_nb import quant
from glow_nb.hlir.graph import Function


@pytest.mark.jit
def test_integers_have_a_line_of_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quantization, "RUNS", 1)
    images = np.random.default_rng(0).random((360, 8, 8, 1), np.float32)
    function = glow_nb.load(quantization.MODEL)
    assert isinstance(function, Function)
    scores = glow_nb.compile(function, threads=1).run(images)["scores"]
    made = quant.quantize(function, quant.calibrate(function, images, threads=1))
    line = quantization.row("integers", made, images, scores.argmax(1), scores)
    name, share, ratio, unit, *_ = line.split()
    assert (name, unit) == ("integers", "dB")
    assert float(share.rstrip("%")) > 97
    assert float(ratio) > 30
