"""Weights of neighbouring layers, scaled to fit integers better."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import glow_nb
from glow_nb import quant
from glow_nb.base.types import Array
from glow_nb.hlir.graph import Function, Value
from glow_nb.hlir.ops import Clip, Convolution, FullyConnected, LeakyRelu, Relu, Transpose
from tests.unit.quant.networks import dense, random, residual


def uneven(group: int, activation: type[Any] | None = Relu) -> Function:
    """Return two convolutions with channels of very different sizes between them."""
    b = glow_nb.Builder("uneven")
    sizes = (4.0 ** np.arange(-4, 4)).astype(np.float32)
    x: Value = b.input("x", "float32<1 x 4 x 4 x 8>")
    window: Any = {"stride": (1, 1), "pads": (0,) * 4, "dilation": (1, 1)}
    first = b.constant("first.w", random(8, 1, 1, 8) * sizes[:, None, None, None])
    bias = b.constant("first.b", random(8, seed=1) * sizes)
    x = b.emit(Convolution(x, first, bias, kernel=(1, 1), group=1, **window), name="first")
    if activation is not None:
        x = b.emit(activation(x))
    shape = (8, 1, 1, 8 // group)
    factor = 1 / (sizes[:, None, None, None] if group > 1 else sizes)
    second = b.constant("second.w", (random(*shape, seed=2) * factor).astype(np.float32))
    bias = b.constant("second.b", random(8, seed=3))
    x = b.emit(Convolution(x, second, bias, kernel=(1, 1), group=group, **window), name="second")
    b.save(x, "y")
    return b.function()


def outputs(function: Function, sample: Array) -> Array:
    return glow_nb.evaluate(function, {function.inputs[0].name: sample})["y"]


@pytest.mark.parametrize("activation", [Relu, LeakyRelu, None])
@pytest.mark.parametrize("group", [1, 8])
def test_the_network_computes_the_same_with_better_weights(
    group: int, activation: type[Any] | None
) -> None:
    function = uneven(group, activation)
    found = quant.equalize(function)
    sample = random(1, 4, 4, 8, seed=5)
    np.testing.assert_allclose(
        outputs(found.function, sample), outputs(function, sample), rtol=1e-4, atol=1e-4
    )
    assert found.pairs == (("first", "second"),)
    assert found.after > found.before + 5
    assert str(found).startswith("1 pairs of layers equalized: 8-bit weights from ")


def test_weights_may_lie_in_memory_in_any_order() -> None:
    """Filters of ONNX models are transposed views, of which ``reshape`` makes copies."""
    b = glow_nb.Builder("transposed")
    x: Value = b.input("x", "float32<1 x 6 x 6 x 4>")
    window: Any = {"stride": (1, 1), "pads": (0,) * 4, "dilation": (1, 1), "group": 1}
    for name, channels in (("first", 8), ("second", 3)):
        stored = b.constant(f"{name}.w", random(channels, x.type.shape[-1], 3, 3))
        filter = b.emit(Transpose(stored, permutation=(0, 2, 3, 1)))
        bias = b.constant(f"{name}.b", random(channels, seed=1))
        x = b.emit(Convolution(x, filter, bias, kernel=(3, 3), **window))
    b.save(x, "y")
    function, sample = b.function(), random(1, 6, 6, 4, seed=5)
    found = quant.equalize(function)
    assert len(found.pairs) == 1
    assert found.after != found.before
    np.testing.assert_allclose(
        outputs(found.function, sample), outputs(function, sample), rtol=1e-4, atol=1e-4
    )


def test_integers_with_one_scale_a_layer_are_nearer_to_the_floats() -> None:
    function = uneven(1)
    samples = [random(1, 4, 4, 8, seed=seed) for seed in range(8)]
    noise = []
    for each in (function, quant.equalize(function).function):
        ranges = quant.calibrate(each, samples, backend="interpreter")
        quantized = quant.quantize(each, ranges, per_channel=False, least_gain=0)
        found = quant.drift(function, quantized, samples, backend="interpreter")
        noise.append(found.outputs[0].signal_to_noise)
    assert noise[1] > noise[0] + 3


def test_dense_layers_are_equalized() -> None:
    found = quant.equalize(dense())
    assert found.pairs == (("first", "second"),)
    sample = random(2, 5)
    np.testing.assert_allclose(
        outputs(found.function, sample), outputs(dense(), sample), rtol=1e-4, atol=1e-5
    )


def test_channels_that_several_read_stay() -> None:
    assert quant.equalize(residual()).pairs == (("inner", "outer"), ("mean", "last"))


def test_functions_that_are_not_homogeneous_end_a_pair() -> None:
    b = glow_nb.Builder("clipped")
    x: Value = b.input("x", "float32<2 x 3>")
    for name in ("first", "second"):
        w, c = b.constant(f"{name}.w", random(3, 3)), b.constant(f"{name}.b", random(3))
        x = b.emit(Clip(b.emit(FullyConnected(x, w, c), name=name), 0.0, 6.0))
    b.save(x, "y")
    found = quant.equalize(b.function())
    assert found.pairs == ()
    assert str(found) == "no pairs of layers can be equalized"


def test_channels_of_zeros_stay() -> None:
    b = glow_nb.Builder("zeros")
    x: Value = b.input("x", "float32<2 x 3>")
    for name, weights in (("first", np.eye(3)), ("second", np.zeros((3, 3)))):
        w = b.constant(f"{name}.w", weights.astype(np.float32))
        x = b.emit(FullyConnected(x, w, b.constant(f"{name}.b", random(3))), name=name)
    b.save(x, "y")
    found = quant.equalize(b.function())
    np.testing.assert_array_equal(
        outputs(found.function, random(2, 3)), outputs(b.function(), random(2, 3))
    )
