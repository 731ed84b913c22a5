"""Biases that make up for rounded weights."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

import glow_nb
from glow_nb import quant
from glow_nb.base.errors import CalibrationError
from glow_nb.hlir.graph import Function
from glow_nb.hlir.ops import Dequantize
from glow_nb.quant.bias_correction import mean_decibels
from glow_nb.quant.comparison import Drift
from glow_nb.quant.value_drift import ValueDrift
from tests.in_turn import marked
from tests.unit.quant.networks import branching, convolutional, dense, random, residual


@pytest.mark.parametrize(
    "network", marked([dense, convolutional, residual, branching], [convolutional, branching])
)
def test_outputs_come_no_further_from_the_floats(network: Callable[[], Function]) -> None:
    """The slow run also has convolutions in a row and in branches; residuals are in both."""
    function = network()
    shape = function.inputs[0].type.shape
    samples = [random(*shape, seed=seed) + 1 for seed in range(8)]
    ranges = quant.calibrate(function, samples, backend="interpreter")
    quantized = quant.quantize(
        function, ranges, per_channel=False, activations="int16", least_gain=0
    )
    found = quant.correct_biases(function, quantized, samples, backend="interpreter")
    before, after = (
        quant.drift(function, each, samples, backend="interpreter").outputs[0].signal_to_noise
        for each in (quantized, found.function)
    )
    assert before == pytest.approx(found.before)
    assert after == pytest.approx(max(found.before, found.after))
    assert after >= before


def test_the_mean_of_a_layer_is_that_of_the_floats() -> None:
    function = dense()
    samples = [np.abs(random(2, 5, seed=seed)) + 2 for seed in range(8)]
    ranges = quant.calibrate(function, samples, backend="interpreter")
    quantized = quant.quantize(
        function, ranges, per_channel=False, activations="int16", least_gain=0
    )
    found = quant.correct_biases(function, quantized, samples, backend="interpreter")
    assert found.corrected == 2
    assert found.after > found.before + 3

    def mean(each: Function) -> float:
        runs = [glow_nb.evaluate(each, {"x": sample})["y"] for sample in samples]
        return float(np.abs(np.mean(runs, axis=(0, 1)) - wanted).max())

    wanted = np.mean([glow_nb.evaluate(function, {"x": x})["y"] for x in samples], axis=(0, 1))
    assert mean(found.function) < mean(quantized) / 3
    assert str(found).startswith("2 biases corrected: outputs from ")
    assert sum(isinstance(node, Dequantize) for node in found.function.nodes) == 2


def test_outputs_that_are_exact_are_not_counted() -> None:
    samples = [np.abs(random(2, 5, seed=seed)) + 2 for seed in range(8)]
    found = {}
    for has_another in (False, True):
        builder = glow_nb.Builder.continuing(dense())
        if has_another:
            builder.save(builder.inputs[0], "same")
        function = builder.function()
        ranges = quant.calibrate(function, samples, backend="interpreter")
        integers = quant.quantize(function, ranges, per_channel=False, least_gain=0)
        found[has_another] = quant.correct_biases(
            function, integers, samples, backend="interpreter"
        )
    assert found[True].before == found[False].before
    assert found[True].after == found[False].after > found[True].before


@pytest.mark.parametrize(
    ("before", "after", "means"),
    [
        ([math.inf, 20], [math.inf, 21], (20, 21)),
        ([math.inf, 20], [-math.inf, 21], (math.inf, -math.inf)),
        ([-math.inf, 20], [math.inf, 19.9], (-math.inf, math.inf)),
        ([math.inf], [math.inf], (math.inf, math.inf)),
        ([], [], (math.inf, math.inf)),
    ],
)
def test_an_output_that_is_wholly_wrong_decides(
    before: list[float], after: list[float], means: tuple[float, float]
) -> None:
    def drift_with(ratios: list[float]) -> Drift:
        return Drift("net", (), tuple(ValueDrift("y", "output", r, 0.0) for r in ratios), None)

    assert mean_decibels(drift_with(before), drift_with(after)) == means


def test_what_is_no_better_stays_as_it_was() -> None:
    function = dense()
    again = quant.correct_biases(function, function, random(4, 5), backend="interpreter")
    assert again.corrected == 0
    assert again.function is function
    assert str(again) == "0 biases corrected: outputs from inf dB to inf dB; the old ones stay"
    with pytest.raises(CalibrationError, match="there are none"):
        quant.correct_biases(function, function, [])
