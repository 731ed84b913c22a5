"""``bisect_noise`` names the first value of a quantized network that is far from the floats."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import glow_nb
from glow_nb import bisection, quant
from glow_nb.base.distance import decibels
from glow_nb.base.errors import OptionError, UnboundDimension
from glow_nb.base.types import Array, ElementKind
from glow_nb.hlir import ops
from glow_nb.hlir.graph import Function, Value
from glow_nb.network.files import save_text
from tests.unit.commands.samples import call, fails, write_dense
from tests.unit.quant.networks import dense, random, residual

SAMPLE = random(2, 5, seed=3)


def integers_of(function: Function) -> Function:
    samples = [random(*function.inputs[0].type.shape, seed=seed) for seed in range(4)]
    ranges = quant.calibrate(function, samples, backend="interpreter")
    return quant.quantize(function, ranges, least_gain=0)


def chain(scale: float | None = None, offset: int = 0, *, rectifies: bool = True) -> Function:
    """Return two products with ReLU between, stored as bytes of this *scale* if it is given."""
    b = glow_nb.Builder("chain")
    x: Value = b.input("x", "float32<2 x 5>")
    x = b.emit(ops.MatMul(x, b.constant("w", random(5, 7))), name="first")
    if rectifies:
        x = b.emit(ops.Relu(x), name="between")
    if scale is not None:
        stored = ops.Quantize(x, kind=ElementKind.UINT8, scale=scale, offset=offset)
        x = b.emit(ops.Dequantize(b.emit(stored, name="stored")), name="read")
    b.save(b.emit(ops.MatMul(x, b.constant("v", random(7, 3, seed=1))), name="second"), "y")
    return b.function()


def test_a_good_network_has_no_noisy_value() -> None:
    function = residual()
    sample = random(1, 4, 4, 3, seed=9)
    found = bisection.bisect_noise(function, integers_of(function), sample)
    assert [value.name for value in found.values] == (
        "stem stem_relu inner inner_relu outer sum sum_relu head_mean mean last y".split()
    )
    assert found.first_bad is None
    assert str(found) == "all 11 values have at least 20 dB"


def test_the_first_value_with_too_much_noise_is_named() -> None:
    told: list[str] = []
    found = bisection.bisect_noise(
        chain(),
        chain(scale=1e-3),
        SAMPLE,
        progress=lambda step, number, count: told.append(f"{step} {number} {count}"),
    )
    assert [(value.name, value.opcode) for value in found.values] == [
        ("first", "mat_mul"),
        ("between", "relu"),
        ("second", "mat_mul"),
        ("y", "output"),
    ]
    assert found.values[0].signal_to_noise == np.inf
    assert found.first_bad == found.values[1]
    assert str(found).startswith("%between, relu, is the first with less than 20 dB of signal")
    assert told == ["reference 0 3", "optimized reference 1 3", "quantized 2 3"]


def test_a_value_counts_as_it_is_read() -> None:
    """Bytes from 0 on do what a ReLU does: the value before them need not be the ReLU's."""
    b = glow_nb.Builder("chain")
    x = b.input("x", "float32<2 x 5>")
    product = b.emit(ops.MatMul(x, b.constant("w", random(5, 7))), name="between")
    stored = ops.Quantize(product, kind=ElementKind.UINT8, scale=0.03, offset=0)
    read = b.emit(ops.Dequantize(b.emit(stored)), name="read")
    b.save(b.emit(ops.MatMul(read, b.constant("v", random(7, 3, seed=1))), name="second"), "y")
    found = bisection.bisect_noise(chain(), b.function(), SAMPLE)
    assert [value.name for value in found.values] == ["between", "second", "y"]
    assert found.first_bad is None


def test_other_networks_and_bounds_are_refused() -> None:
    with pytest.raises(OptionError, match="the outputs of the quantized network are"):
        b = glow_nb.Builder("other")
        b.save(b.input("x", "float32<2 x 5>"), "z")
        bisection.bisect_noise(chain(), b.function(), SAMPLE)
    with pytest.raises(OptionError, match="the inputs of the quantized network are"):
        bisection.bisect_noise(chain(), residual(), SAMPLE)
    with pytest.raises(OptionError, match="least_decibels=nan: give a finite number"):
        bisection.bisect_noise(chain(), chain(), SAMPLE, least_decibels=float("nan"))
    wrong: Any = "20"
    with pytest.raises(OptionError, match="least_decibels='20': give a finite number"):
        bisection.bisect_noise(chain(), chain(), SAMPLE, least_decibels=wrong)
    program = glow_nb.compile(chain(), backend="interpreter").program
    with pytest.raises(OptionError, match="is a program; give the graph"):
        bisection.bisect_noise(chain(), program, SAMPLE)


@pytest.mark.parametrize(
    ("expected", "found", "wanted"),
    [([3.0, 4.0], [3.0, 4.5], 20.0), ([1.0], [1.0], np.inf), ([0.0], [1.0], -np.inf)],
)
def test_decibels_are_ratios_of_energies(
    expected: list[float], found: list[float], wanted: float
) -> None:
    arrays: list[Array] = [np.array(each, np.float32) for each in (expected, found)]
    assert decibels(*arrays) == pytest.approx(wanted)


def test_the_command_compares_with_a_reference(tmp_path: Path) -> None:
    floats, integers = tmp_path / "floats.glow", tmp_path / "integers.glow"
    save_text(dense(), floats)
    save_text(integers_of(dense()), integers)
    result = call("bisect", integers, "--reference", floats)
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[-1].startswith("all 4 values have at least 20 dB")
    result = call("bisect", integers, "--reference", floats, "--least-decibels", 90)
    assert result.exit_code == 3
    assert "is the first with less than 90 dB of signal to noise" in result.stdout
    assert result.stdout.count("noisy") == 4
    message = fails("bisect", integers, "--reference", floats, "--keep-going")
    assert "--keep-going: with --reference two graphs are evaluated; leave it out" in message


def test_networks_share_the_sizes_that_one_of_them_leaves_open(tmp_path: Path) -> None:
    opened, fixed = tmp_path / "open", tmp_path / "fixed"
    opened.mkdir()
    fixed.mkdir()
    floats, integers = write_dense(opened, "batch"), tmp_path / "integers.glow"
    save_text(integers_of(glow_nb.load(write_dense(fixed, 2))), integers)
    sample = random(2, 3)
    for shapes in (None, {"batch": 2}, {"x": (2, 3)}):
        found = bisection.bisect_noise(floats, integers, sample, shapes=shapes)
        assert found.values[-1].name == "y"
        bisection.bisect_noise(write_dense(fixed, 2), floats, sample, shapes=shapes)
    both = bisection.bisect_noise(floats, floats, sample, shapes={"batch": 2})
    assert both.first_bad is None
    with pytest.raises(OptionError, match="no symbolic dimension 'bach'.*'batch'"):
        bisection.bisect_noise(floats, integers, sample, shapes={"bach": 2})
    with pytest.raises(UnboundDimension):
        bisection.bisect_noise(floats, floats, sample)
    for options in ((), ("--shape", "batch=2"), ("--shape", "x=2x3")):
        result = call("bisect", integers, "--reference", floats, *options)
        assert result.exit_code == 0, result.output
    assert "give sizes: --shape batch=1" in fails("bisect", floats, "--reference", floats)


def test_inputs_outside_of_the_calibrated_range_are_told(tmp_path: Path) -> None:
    function = residual()
    integers = integers_of(function)
    shape = function.inputs[0].type.shape
    fitting = random(*shape, seed=1)
    assert not bisection.bisect_noise(function, integers, fitting).outside
    found = bisection.bisect_noise(function, integers, 1000 * fitting)
    (one,) = found.outside
    assert (one.name, one.share > 0.9) == ("x", True)
    assert one.low < fitting.min() and fitting.max() < one.high
    told = str(found).splitlines()[1]
    assert re.match(r"\d+ % of the numbers of input x are outside of -[\d.]+..[\d.]+", told)


def test_a_range_of_each_channel_is_none_of_the_input() -> None:
    b = glow_nb.Builder("net")
    x, scale = b.input("x", "float32<2 x 2>"), np.full((1, 1), 0.1, np.float32)
    offset = b.constant("offset", np.array([[0, 255]], np.uint8))
    node = ops.QuantizeLinear(x, b.constant("scale", scale), offset, ElementKind.UINT8)
    stored = b.emit(node)
    b.save(b.emit(ops.DequantizeLinear(stored, b.constant("by", scale), offset), name="read"), "y")
    function, sample = b.function(), np.array([[9, -9], [8, -8]], np.float32)
    assert not bisection.bisect_noise(function, function, sample).outside


@pytest.mark.parametrize(("offset", "is_told"), [(0, True), (128, False)])
def test_random_inputs_that_are_not_calibrated_for_are_told_by_the_command(
    tmp_path: Path, offset: int, is_told: bool
) -> None:
    """Without an offset, bytes stand for no negative numbers, as half of the random ones are."""
    b = glow_nb.Builder("net")
    x = b.input("x", "float32<4 x 8>")
    turned = b.emit(ops.Transpose(x, permutation=(1, 0)))
    stored = b.emit(ops.Quantize(turned, kind=ElementKind.UINT8, scale=0.1, offset=offset))
    b.save(b.emit(ops.Dequantize(stored), name="read"), "y")
    integers, floats = tmp_path / "integers.glow", tmp_path / "floats.glow"
    save_text(b.function(), integers)
    builder = glow_nb.Builder("net")
    given = builder.input("x", "float32<4 x 8>")
    builder.save(builder.emit(ops.Transpose(given, permutation=(1, 0)), name="read"), "y")
    save_text(builder.function(), floats)
    output = call("bisect", integers, "--reference", floats).output
    assert ("outside of 0..25.5" in output) == is_told
    assert ("random numbers; --input NAME=FILE.npy gives others" in output) == is_told
