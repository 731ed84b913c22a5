"""Images get the channels first, and the transposes around them go away."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import glow_nb
from experiments.networks import mobile as mobile_networks
from experiments.networks.twins import make_twin
from glow_nb.base.distance import largest_distance
from glow_nb.formats.onnx.exporter.channels_first import ChannelsFirst
from glow_nb.formats.onnx.exporter.layout import lay_out
from glow_nb.formats.onnx.importer import import_onnx
from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.evaluate import evaluate
from glow_nb.hlir.graph import Constant, Function, Value
from glow_nb.tools.duel.feeds import random_feeds

WINDOW: dict[str, Any] = {"kernel": (3, 3), "stride": (1, 1), "pads": (1,) * 4, "dilation": (1, 1)}


def filter_of(b: Builder, depth: int, channels: int) -> Constant:
    rng = np.random.default_rng(depth)
    return b.constant("w", rng.normal(size=(depth, 3, 3, channels)).astype(np.float32))


def convolved(b: Builder, x: Value, depth: int) -> Value:
    bias = b.constant("b", np.ones(depth, np.float32))
    return b.emit(ops.Convolution(x, filter_of(b, depth, x.type.shape[-1]), bias, **WINDOW))


def channels_last() -> Function:
    """Return two branches with the channels last, joined and reduced."""
    b = Builder()
    x = b.input("x", "float32<2 x 6 x 5 x 3>")
    first = b.emit(ops.Relu(convolved(b, x, 4)))
    scale = b.constant("scale", np.array([[[[1, 2, 3, 4]]]], np.float32))
    left = b.emit(ops.Mul(convolved(b, first, 4), scale))
    right = b.emit(ops.MaxPool(b.emit(ops.Add(first, left)), **WINDOW))
    joined = b.emit(ops.Concat((left, right), axis=3))
    gain, bias, mean, variance = (b.constant("c", np.full(8, i, np.float32)) for i in range(1, 5))
    normal = ops.BatchNormalization(
        joined, gain, bias, mean, variance, epsilon=1e-5, channel_axis=3
    )
    last = convolved(b, b.emit(normal), 8)
    b.save(b.emit(ops.ReduceMean(last, axes=(1, 2), keep_dims=False)), "y")
    return b.function()


def transposes(function: Function) -> list[str]:
    return [node.name for node in function.nodes if isinstance(node, ops.Transpose)]


def check_alike(function: Function) -> Function:
    laid_out = lay_out(function)
    rng = np.random.default_rng(0)
    feeds = {p.name: rng.normal(size=p.type.shape).astype(np.float32) for p in function.inputs}
    expected, found = (evaluate(each, feeds).values() for each in (function, laid_out))
    assert largest_distance(expected, found) <= 1e-6
    return laid_out


def test_one_transpose_is_left_at_the_border() -> None:
    function = channels_last()
    laid_out = check_alike(function)
    assert len(transposes(laid_out)) == 1
    names = {constant.name for constant in laid_out.constants}
    assert {"w", "w_1", "w_2", "scale"} <= names <= {c.name for c in function.constants}
    assert sum(isinstance(node, ChannelsFirst) for node in laid_out.nodes) == 4
    (normal,) = (n for n in laid_out.nodes if isinstance(n, ops.BatchNormalization))
    assert normal.channel_axis == 1


def test_a_graph_without_images_is_left_alone() -> None:
    b = Builder()
    x = b.input("x", "float32<2 x 3 x 4>")
    b.save(b.emit(ops.Relu(b.emit(ops.Transpose(x, (2, 0, 1))))), "y")
    function = b.function()
    assert lay_out(function) is function


def test_an_imported_graph_gets_its_names_back() -> None:
    function = import_onnx(make_twin("squeezenet", 1))
    laid_out = lay_out(function)
    assert not transposes(laid_out)
    assert {"conv1_w_0", "conv1_b_0"} <= {constant.name for constant in laid_out.constants}


def test_an_image_that_is_read_both_ways_is_transposed_once() -> None:
    b = Builder()
    x = b.input("x", "float32<2 x 6 x 5 x 3>")
    b.save(convolved(b, x, 4), "y")
    b.save(convolved(b, x, 2), "z")
    laid_out = check_alike(b.function())
    assert len(transposes(laid_out)) == 3  # of x once, and of both outputs


@pytest.mark.parametrize("network", [mobile_networks.odd])
def test_an_optimized_network_means_the_same(network: Any) -> None:
    model = network()
    function = glow_nb.optimize(import_onnx(model))
    feeds = random_feeds(model)
    expected, found = (evaluate(each, feeds).values() for each in (function, lay_out(function)))
    assert largest_distance(expected, found) <= 1e-6
