"""Drift: what integers have changed, value by value."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import onnx.parser
import pytest

import glow_nb
from glow_nb import quant
from glow_nb.base.errors import OptionError
from glow_nb.base.types import Array
from glow_nb.formats.onnx.importer import import_onnx
from glow_nb.hlir.graph import Function
from glow_nb.hlir.ops import Add
from glow_nb.quant.comparison import Drift
from glow_nb.quant.gain import Gains, LayerGain, Times
from glow_nb.quant.value_drift import ValueDrift
from tests.unit.quant.networks import convolutional, dense, random, residual


def drift_of(function: Function, samples: Array, **options: str) -> Drift:
    ranges = quant.calibrate(function, samples, backend="interpreter")
    quantized = quant.quantize(function, ranges, least_gain=0, **options)  # type: ignore[arg-type]
    return quant.drift(function, quantized, samples, backend="interpreter", runs=0)


def test_values_and_outputs_are_compared() -> None:
    found = drift_of(convolutional(), random(6, 8, 8, 3))
    assert found.model == "convolutional"
    assert [(value.name, value.opcode) for value in found.values] == [
        ("x", "input"),
        ("relu0", "relu"),
        ("pool0", "max_pool"),
        ("relu1", "relu"),
        ("pool1", "max_pool"),
        ("flat", "reshape"),
    ]
    assert [(value.name, value.opcode) for value in found.outputs] == [("y", "output")]
    assert all(25 < value.signal_to_noise < 70 for value in (*found.values, *found.outputs))
    assert [value.name for value in found.worst(1)] == [
        min(found.values, key=lambda value: value.signal_to_noise).name
    ]


def test_the_numbers_are_what_they_say() -> None:
    function, samples = dense(), random(4, 5)
    ranges = quant.calibrate(function, samples, backend="interpreter")
    quantized = quant.quantize(function, ranges, method=quant.Percentile(50), least_gain=0)
    found = quant.drift(function, quantized, samples, backend="interpreter")
    wanted, got = (
        np.concatenate([glow_nb.evaluate(f, {"x": samples[i : i + 2]})["y"] for i in (0, 2)])
        for f in (function, quantized)
    )
    (output,) = found.outputs
    assert output.largest_error == pytest.approx(np.abs(wanted - got).max(), rel=1e-3)
    ratio = 10 * np.log10(np.sum(wanted**2) / np.sum((wanted - got) ** 2))
    assert output.signal_to_noise == pytest.approx(ratio, abs=0.01)
    assert found.values[0].saturated == pytest.approx(0.5, abs=0.15)
    assert output.saturated == 0


def test_a_network_is_equal_to_itself() -> None:
    found = quant.drift(dense(), dense(), random(4, 5), backend="interpreter", runs=0)
    assert found.values == ()
    assert found.outputs == (ValueDrift("y", "output", math.inf, 0.0),)
    assert str(found).splitlines()[1].split() == ["y", "output", "inf", "0", "0.000", "%"]


def test_infinities_are_equal_to_themselves() -> None:
    """As the scores of keys that a mask hides."""
    b = glow_nb.Builder("masked")
    x, mask = b.input("x", "float32<2 x 3>"), b.input("mask", "float32<2 x 3>")
    b.save(b.emit(Add(x, mask)), "y")
    sample = {"x": random(2, 3), "mask": np.array([[0, -np.inf, np.inf]] * 2, np.float32)}
    found = quant.drift(b.function(), b.function(), [sample], backend="interpreter", runs=0)
    assert found.outputs == (ValueDrift("y", "output", math.inf, 0.0),)


def test_outputs_whose_size_only_a_run_shows_are_left_out() -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]>'
        "places (float[2, 5] x) => (int64[2, n] y) { y = NonZero(x) }"
    )
    network, samples = import_onnx(model), random(4, 5)
    found = quant.drift(network, network, samples, backend="interpreter", runs=0)
    assert found.outputs == ()
    again = quant.correct_biases(network, network, samples, backend="interpreter")
    assert (again.before, again.after) == (math.inf, math.inf)


def test_a_signal_of_nothing_has_no_decibels() -> None:
    b = glow_nb.Builder("zeros")
    w, one = b.constant("w", np.zeros((5, 3), np.float32)), b.constant("b", np.zeros(3, np.float32))
    from glow_nb.hlir.ops import FullyConnected

    b.save(b.emit(FullyConnected(b.input("x", "float32<2 x 5>"), w, one), name="second"), "y")
    found = quant.drift(b.function(), dense(), random(2, 5), backend="interpreter")
    assert found.outputs[0].signal_to_noise == -math.inf


def test_other_outputs_are_refused() -> None:
    b = glow_nb.Builder("other")
    b.save(b.input("x", "float32<2 x 5>"), "z")
    with pytest.raises(OptionError, match="the outputs of 'other' are {'z': .*those of 'dense'"):
        quant.drift(dense(), b.function(), random(2, 5))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"precision": "bf16"}, r"precision='bf16': give one of \('float32', 'bfloat16'\)"),
        ({"precision": "bfloat16", "keep": "first"}, "keep='first': give a tuple of texts"),
        ({"precision": "bfloat16", "keep": ["frist"]}, "'frist' fits no node .* mean 'first'"),
        ({"keep": ["first"]}, "precision is 'float32', which keeps all layers"),
        (
            {"backend": glow_nb.Cpu(precision="bfloat16")},
            "computes in bfloat16, .* give drift precision='bfloat16'",
        ),
    ],
)
def test_precisions_without_meaning_are_refused(options: Any, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        quant.drift(dense(), dense(), random(2, 5), runs=0, **options)


def test_the_picture_has_a_bar_for_each_value(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    image = pytest.importorskip("matplotlib.image")
    heights = []
    for function, shape in ((convolutional(), (6, 8, 8, 3)), (residual(), (2, 4, 4, 3))):
        path = tmp_path / f"{function.name}.png"
        found = drift_of(function, random(*shape))
        found.plot(path)
        heights.append((len(found.values), image.imread(path).shape[0]))
    assert heights[0][0] == heights[1][0]
    assert heights[0][1] == heights[1][1] > 200
    extremes = (
        ValueDrift("a$b$", "relu", math.inf, 0.0),
        ValueDrift("c" * 90, "relu", -math.inf, 1.0, 0.5),
        ValueDrift("nan", "relu", math.nan, math.nan),
    )
    Drift("all", extremes, ()).plot(tmp_path / "all.png")
    width = image.imread(tmp_path / "all.png").shape[1]
    layer = LayerGain(("a$b$",), Times(2.0, 1.0), Times(3.0, 1.0))
    gains = Gains((LayerGain(("converts",), Times(0.0, 1.0), Times(0.0, 1.0)), layer))
    Drift("timed", extremes, (), gains).plot(tmp_path / "timed.png")
    assert image.imread(tmp_path / "timed.png").shape[1] > width
    Drift("nothing", (), ()).plot(tmp_path / "nothing.png")
