"""How the cpu computes gradients that are sums."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import glow_nb
from glow_nb.backends.cpu.select_gradient_kernels import (
    is_better_transposed,
    parts_of,
    select_gradient_kernels,
)
from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.evaluate import evaluate
from glow_nb.hlir.graph import Function
from glow_nb.kernels.operators import DepthwiseFilterGradient, FilterGradientParts
from glow_nb.kernels.target import Target
from tests.in_turn import in_turn, one_in


def network(
    *, channels: int, depth: int, group: int = 1, size: int = 9, kind: str = "float32"
) -> Function:
    """Return a network of the gradient of one filter of three by three taps."""
    b = Builder("network")
    x = b.input("x", f"{kind}<2 x {size} x {size} x {channels}>")
    g = b.input("g", f"{kind}<2 x {size} x {size} x {depth}>")
    window: dict[str, Any] = {"kernel": (3, 3), "pads": (1, 1, 1, 1)}
    window |= {"stride": (1, 1), "dilation": (1, 1)}
    b.save(b.emit(ops.ConvolutionFilterGradient(x, g, **window, group=group)), "y")
    return b.function()


def node_of(function: Function) -> ops.ConvolutionFilterGradient:
    (node,) = (n for n in function.nodes if isinstance(n, ops.ConvolutionFilterGradient))
    return node


@pytest.mark.parametrize(
    ("channels", "depth", "threads", "wanted"),
    [
        (64, 64, 1, 1),
        (64, 64, 16, 16),  # fewer rows and columns than threads
        (512, 512, 2, 1),  # threads share rows: a second sum would cost more than it spares
    ],
)
def test_sums_are_cut_where_threads_would_wait(
    channels: int, depth: int, threads: int, wanted: int
) -> None:
    node = node_of(network(channels=channels, depth=depth, size=20))
    wide = replace(Target.host(16), features="+avx,+avx2,+fma,+avx512f,+avx512vl")
    assert parts_of(node, wide, threads) == wanted


def test_few_channels_are_transposed() -> None:
    target = Target.host(16)
    assert is_better_transposed(node_of(network(channels=3, depth=64)), target)
    assert not is_better_transposed(node_of(network(channels=64, depth=64)), target)
    assert not is_better_transposed(node_of(network(channels=4, depth=4, group=2)), target)


def test_there_are_no_more_parts_than_lines() -> None:
    assert parts_of(node_of(network(channels=16, depth=8, size=1)), Target.host(), 64) <= 2


@pytest.mark.jit
@pytest.mark.parametrize(
    ("sizes", "options"),
    in_turn(
        [(5, 7, 1), (1, 32, 1), (6, 4, 2), (6, 6, 6), (6, 18, 6)],
        [("float32", 1), ("float32", 3), ("float64", 3), ("float16", 1), ("bfloat16", 3)],
        only=[(5, 7, 1), (6, 4, 2)],
    ),
)
def test_compiled_gradient_is_that_of_the_graph(
    sizes: tuple[int, int, int], options: tuple[str, int]
) -> None:
    """The slow run also has a single channel, groups of one output, and half precision."""
    (channels, depth, group), (kind, threads) = sizes, options
    function = network(channels=channels, depth=depth, group=group, size=5, kind=kind)
    rng = np.random.default_rng(0)
    feeds = {
        p.name: rng.integers(-2, 3, p.type.shape).astype(p.type.kind.dtype) for p in function.inputs
    }
    net = glow_nb.compile(function, threads=threads)
    np.testing.assert_array_equal(net.run(feeds)["y"], evaluate(function, feeds)["y"])


def test_each_gradient_gets_a_kernel() -> None:
    made = select_gradient_kernels(network(channels=6, depth=18, group=6))
    assert any(isinstance(node, DepthwiseFilterGradient) for node in made)
    made = select_gradient_kernels(network(channels=6, depth=18, group=2), threads=4)
    assert any(isinstance(node, FilterGradientParts) for node in made)


@pytest.mark.jit
@pytest.mark.parametrize("kind", one_in(2, ["float32", "float64", "float16", "bfloat16"]))
def test_compiled_gradient_of_a_max_pool_is_that_of_the_graph(kind: str) -> None:
    b = Builder("network")
    x, g = (b.input(name, f"{kind}<2 x {n} x {n} x 5>") for name, n in (("x", 9), ("g", 4)))
    window: dict[str, Any] = {"kernel": (3, 3), "pads": (0, 0, 0, 0)}
    window |= {"stride": (2, 2), "dilation": (1, 1)}
    b.save(b.emit(ops.MaxPoolGradient(x, g, **window)), "y")
    function, rng = b.function(), np.random.default_rng(0)
    feeds = {
        p.name: rng.integers(-9, 10, p.type.shape).astype(p.type.kind.dtype)
        for p in function.inputs
    }
    found = glow_nb.compile(function, threads=2).run(feeds)["y"]
    np.testing.assert_array_equal(found, evaluate(function, feeds)["y"])
