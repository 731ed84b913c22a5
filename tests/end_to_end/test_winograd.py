"""Winograd convolutions in real networks: how far the results are from the truth.

The truth is the same network in ``float64``, operator by operator. A difference is measured over
the largest output.
"""

from __future__ import annotations

import numpy as np
import pytest

import glow_nb
from experiments.networks.twins import NAMES, make_twin
from glow_nb.base.distance import distance, largest_distance
from glow_nb.base.errors import OptionError
from glow_nb.base.types import Array
from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Function
from glow_nb.tools.duel.feeds import random_feeds
from glow_nb.tools.duel.reference import truth_of

pytestmark = pytest.mark.jit

TOLERANCE, DIRECT_TOLERANCE = 1e-4, 5e-5


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("batch", [1, 8])
def test_twins_stay_near_the_truth(name: str, batch: int) -> None:
    model = make_twin(name, batch)
    feeds = random_feeds(model)
    truth = truth_of(model, feeds)
    nets = [glow_nb.compile(model, threads=threads) for threads in (1, 2)]
    for net in nets:
        assert largest_distance(truth.values(), net.run(feeds).values()) <= TOLERANCE
    sums = glow_nb.Cpu(winograd="off", strassen="off")
    direct = glow_nb.compile(model, threads=1, backend=sums)
    assert largest_distance(truth.values(), direct.run(feeds).values()) <= DIRECT_TOLERANCE
    if name == "squeezenet":
        assert any(kernel.family == "winograd" for kernel in nets[0].kernels)
        assert not any(kernel.family == "winograd" for kernel in direct.kernels)


def convolution(weights: Array) -> Function:
    """Return a convolution of one 28 x 28 image that keeps its size."""
    depth, taps, _, channels = weights.shape
    b = Builder()
    x = b.input("x", f"{weights.dtype}<1 x 28 x 28 x {channels}>")
    filter, bias = b.constant("w", weights), b.constant("b", np.zeros(depth, weights.dtype))
    pads = (taps // 2,) * 4
    made = ops.Convolution(
        x, filter, bias, kernel=(taps, taps), stride=(1, 1), pads=pads, dilation=(1, 1), group=1
    )
    b.save(b.emit(made), "y")
    return b.function()


def families(net: glow_nb.Network) -> set[str]:
    return {kernel.family for kernel in net.kernels}


@pytest.mark.parametrize("taps", [3, 5])
def test_a_layer_stays_near_the_truth(taps: int) -> None:
    random = np.random.default_rng(taps)
    weights, image = random.normal(size=(64, taps, taps, 64)), random.normal(size=(1, 28, 28, 64))
    truth = glow_nb.compile(convolution(weights), backend="interpreter").run(image)["y"]
    net = glow_nb.compile(convolution(weights.astype(np.float32)), threads=1)
    assert families(net) >= {"winograd"}
    assert 0 < distance(truth, net.run(image.astype(np.float32))["y"]) <= 1e-5


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("taps", [3, pytest.param(5, marks=pytest.mark.slow)])
def test_results_are_not_finite_where_the_direct_sum_is_not(taps: int, threads: int) -> None:
    """The slow run also has five taps; a property of single kernels has them in both runs."""
    random = np.random.default_rng(taps)
    function = convolution(random.normal(0, 0.1, (64, taps, taps, 64)).astype(np.float32))
    net = glow_nb.compile(function, threads=threads, winograd="guarded")
    assert "winograd" in families(net)
    one_nan = random.normal(size=(1, 28, 28, 64)).astype(np.float32)
    one_nan[0, 10, 11, 3] = np.nan
    found = net.run(one_nan)["y"]
    assert np.isnan(
        found[0, 10 - taps // 2 : 11 + taps // 2, 11 - taps // 2 : 12 + taps // 2]
    ).all()
    assert np.isnan(found).sum() == taps * taps * 64
    huge = random.uniform(-1e37, 1e37, size=one_nan.shape).astype(np.float32)
    found, expected = (
        each.run(huge)["y"] for each in (net, glow_nb.compile(function, winograd="off"))
    )
    assert np.isfinite(expected).all()
    assert distance(expected, found) <= 1e-5


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf, 1e30])
def test_weights_that_no_transform_can_hold_are_summed_up_directly(number: float) -> None:
    weights = np.random.default_rng(0).normal(size=(64, 3, 3, 64)).astype(np.float32)
    assert "winograd" in families(glow_nb.compile(convolution(weights), threads=1))
    weights[5, 1, 2, 3] = number
    net = glow_nb.compile(convolution(weights), threads=1)
    assert "winograd" not in families(net)
    found = net.run(np.ones((1, 28, 28, 64), np.float32))["y"]
    assert np.isfinite(np.delete(found, 5, axis=-1)).all()


def test_unknown_choice_is_refused() -> None:
    with pytest.raises(OptionError, match="winograd='sometimes': give one of"):
        glow_nb.compile(make_twin("squeezenet", 1), winograd="sometimes")
