"""Graphs with open sizes stay open when they are quantized; samples may have any sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import glow_nb
from glow_nb import quant
from glow_nb.base.size import Symbol
from glow_nb.base.types import Array, ElementKind, TensorType
from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.lower import lower
from glow_nb.hlir.ops.windows import Window
from glow_nb.hlir.parse import parse_function
from glow_nb.hlir.with_sizes import with_sizes
from glow_nb.quant.calibration import with_profiles

TEXT = """\
constant %w : float32<8 x 8> = external
constant %b : float32<8> = splat 0.25
constant %v : float32<8 x 8> = external
constant %c : float32<8> = splat -0.5
func @main<n in 1..64 like 8>(%x : float32<n x 8>) -> (%y : float32<n x 8>) {
  %first = fully_connected(%x, %w, %b) : float32<n x 8>
  %relu = relu(%first) : float32<n x 8>
  %second = fully_connected(%relu, %v, %c) : float32<n x 8>
  %y_save = save(%second, %y)
}
"""


def _random(*shape: int) -> Array:
    return np.random.default_rng(0).standard_normal(shape, np.float32)


def _graph() -> glow_nb.Function:
    return parse_function(TEXT, constants={"w": _random(8, 8) / 2, "v": _random(8, 8) / 2})


def test_a_graph_stays_open_when_it_is_quantized() -> None:
    samples = [{"x": _random(n, 8)} for n in (2, 7)]
    ranges = quant.calibrate(_graph(), samples, backend="interpreter")
    quantized = quant.quantize(_graph(), ranges, least_gain=0)
    assert [symbol.name for symbol in quantized.sizes] == ["n"]
    assert not quantized.guards
    assert any(node.opcode == "quantize" for node in quantized)
    for size in (1, 5):
        x = {"x": _random(size, 8)}
        static = lower(glow_nb.optimize(with_sizes(quantized, {"n": size})))
        found = glow_nb.evaluate(lower(glow_nb.optimize(quantized)), x)["y"]
        assert np.array_equal(found, glow_nb.evaluate(static, x)["y"])
        assert np.abs(found - glow_nb.evaluate(_graph(), x)["y"]).max() < 0.1


@pytest.mark.jit
def test_one_program_counts_the_numbers_of_samples_of_all_sizes() -> None:
    samples = [{"x": _random(n, 8)} for n in (2, 7, 5)]
    profiled, profiles = with_profiles(glow_nb.optimize(_graph()), 64)
    networks = [
        glow_nb.compile(profiled, sizes={}, threads=1, backend=backend)  # for all of them
        for backend in ("cpu", "interpreter")
    ]
    for network in networks:
        for sample in samples:
            network.run(sample)
    found, wanted = (network.state for network in networks)
    for counts, bounds in profiles.values():
        assert found[counts.name].sum() == wanted[counts.name].sum() > 0
        assert found[bounds.name] == pytest.approx(wanted[bounds.name], rel=1e-6)


def test_weights_alone_are_quantized_in_an_open_graph() -> None:
    made = quant.convert_weights(_graph(), block=4).function
    assert [symbol.name for symbol in made.sizes] == ["n"]
    x = {"x": _random(3, 8)}
    assert np.abs(glow_nb.evaluate(made, x)["y"] - glow_nb.evaluate(_graph(), x)["y"]).max() < 1


@pytest.mark.parametrize(
    "counted",
    [
        {"pads": (0, 0, 0, 0)},
        {"pads": (1, 1, 1, 1)},
        {"pads": (0, 1, 1, 0), "count_padding": True},
        {"pads": (1, 1, 2, 1), "count_padding": True, "uncounted": (1, 0)},
        {"pads": (1, 0, 1, 1), "uncounted": (1, 0)},
    ],
)
def test_means_of_integers_count_the_cells_of_all_sizes(counted: dict[str, Any]) -> None:
    builder = Builder("mean")
    height = Symbol("h", 6, 3, 64).size
    x = builder.input("x", TensorType(ElementKind.FLOAT32, (1, height, 5, 2)))
    whole = builder.emit(ops.Quantize(x, ElementKind.UINT8, 0.05, 100))
    window: dict[str, Any] = {"kernel": (3, 2), "stride": (2, 1), "dilation": (1, 1)}
    rest: dict[str, Any] = {"kind": ElementKind.UINT8, "scale": 0.04, "offset": 90}
    mean = builder.emit(ops.QuantizedAveragePool(whole, **window, **rest, **counted))
    builder.save(builder.emit(ops.Dequantize(mean, ElementKind.FLOAT32)), "y")
    function = builder.function()
    lowered = lower(function)
    for size in (3, 4, 9):
        inputs = {"x": _random(1, size, 5, 2)}
        found = glow_nb.evaluate(lowered, inputs)["y"]
        assert np.array_equal(
            found, glow_nb.evaluate(with_sizes(function, {"h": size}), inputs)["y"]
        )


def test_the_mean_of_a_whole_image_of_integers_is_that_of_its_size() -> None:
    builder = Builder("mean")
    height = Symbol("h", 6, 3, 64).size
    x = builder.input("x", TensorType(ElementKind.FLOAT32, (1, height, 5, 2)))
    whole = builder.emit(ops.Quantize(x, ElementKind.UINT8, 0.05, 100))
    window = Window((height, 5), (1, 1), (0, 0, 0, 0), (1, 1)).attributes
    kind = ElementKind.UINT8
    mean = ops.QuantizedAveragePool(whole, kind=kind, scale=0.04, offset=90, **window)
    builder.save(builder.emit(ops.Dequantize(builder.emit(mean), ElementKind.FLOAT32)), "y")
    function = builder.function()
    inputs = {"x": _random(1, 9, 5, 2)}
    found = glow_nb.evaluate(lower(function), inputs)["y"]
    assert np.array_equal(found, glow_nb.evaluate(with_sizes(function, {"h": 9}), inputs)["y"])
