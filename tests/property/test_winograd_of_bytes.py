"""Convolutions of bytes by tiles are exact for all sizes, signs, zero points and processors."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import glow_nb
from glow_nb.backends.cpu.algorithms import Problem, algorithm_of
from glow_nb.backends.cpu.algorithms.candidates import all_valid, candidates_for
from glow_nb.backends.cpu.backend import CpuBackend
from glow_nb.base.types import Array, ElementKind
from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.evaluate import evaluate
from glow_nb.hlir.graph import Function, Node, Value
from glow_nb.hlir.rewrite import Replacement, Rewriter, rewrite
from glow_nb.kernels.target import Target

AVX2 = ("+sse2,+avx,+avx2,+fma", 8)
VNNI = ("+sse2,+avx,+avx2,+fma,+avx512f,+avx512bw,+avx512vl,+avx512vnni", 16)
"""Features and lanes."""

SIZES = st.one_of(st.integers(1, 20), st.sampled_from([33, 64, 70, 130]))


@st.composite
def layers(draw: st.DrawFn) -> tuple[Function, dict[str, Array]]:
    """Draw a convolution of bytes that is scaled and rounded to bytes, and an input for it."""
    random = np.random.default_rng(draw(st.integers(0, 99)))
    b, kind = Builder(), ElementKind(draw(st.sampled_from(["int8", "uint8"])))
    low, high = kind.limits
    kernel = draw(st.sampled_from([(3, 3), (3, 3), (3, 3), (1, 3), (3,)]))
    channels, depth = draw(SIZES), draw(SIZES)
    spatial = [draw(st.integers(3, 13)) for _ in kernel]
    shape = (draw(st.integers(1, 2)), *spatial, channels)
    extreme = draw(st.sampled_from([None, None, low, high]))
    numbers = random.integers(low, high, shape, kind.dtype, endpoint=True)
    if extreme is not None:
        numbers[...] = extreme
    x: Value = b.input("x", f"{kind.value}<{' x '.join(map(str, shape))}>")
    pads = [draw(st.integers(0, 2)) for _ in 2 * kernel]
    rank = len(kernel)
    around = (0, *pads[:rank], 0, 0, *pads[rank:], 0)
    x = b.emit(ops.Pad(x, around, value=float(draw(st.integers(low, high)))))
    bound = draw(st.sampled_from([1, 30, 128]))
    weights = random.integers(-bound, bound, (depth, *kernel, channels)).astype(np.int8)
    if draw(st.booleans()):
        weights[...] = draw(st.sampled_from([-128, 127]))
    bias = random.integers(-(2**20), 2**20, depth).astype(np.int32)
    ones = (1,) * rank
    sums = b.emit(
        ops.Convolution(
            x, b.constant("w", weights), b.constant("b", bias), kernel=kernel, stride=ones,
            pads=(0,) * 2 * rank, dilation=ones, group=1,
        )
    )  # fmt: skip
    b.save(sums, "sums")
    scale = np.full((*(1,) * (rank + 1), depth), 2.0**-12, np.float32)
    zero = np.full((1,) * (rank + 2), 3, np.uint8)
    made = ops.Requantize(
        sums, b.constant("scale", scale), b.constant("zero", zero), kind=ElementKind.UINT8
    )
    b.save(b.emit(made), "y")
    return b.function(), {"x": numbers}


def by_tiles(function: Function, target: Target, choice: int) -> Function:
    """Return *function* with its convolution by tiles, in one of the ways that are exact."""

    def rule(node: Node, rewriter: Rewriter) -> Replacement:
        if not isinstance(node, ops.Convolution):
            return None
        problem = Problem.of(node, target, widths=2)
        found = all_valid(node, candidates_for(problem, target, ["winograd"]))
        plans = [candidate.plan for candidate in found]
        plan = plans[choice % len(plans)]
        return algorithm_of(plan).emit(plan, node, rewriter)

    return rewrite(function, rule)


def processor(features: str, lanes: int) -> Target:
    return replace(Target.host(lanes), cpu="x86-64", features=features)


@settings(max_examples=40)
@given(layers(), st.sampled_from([AVX2, VNNI]), st.integers(0, 7))
def test_tiles_mean_the_same(
    layer: tuple[Function, dict[str, Array]], features: tuple[str, int], choice: int
) -> None:
    function, feeds = layer
    wanted = evaluate(function, feeds)
    found = evaluate(by_tiles(function, processor(*features), choice), feeds)
    for name, array in wanted.items():
        np.testing.assert_array_equal(found[name], array)


@pytest.mark.jit
@settings(max_examples=max(1, settings().max_examples // 20))
@given(layers(), st.sampled_from([4, 8, 16, None]), st.integers(0, 7), st.integers(1, 2))
def test_kernels_of_tiles_are_exact(
    layer: tuple[Function, dict[str, Array]], lanes: int | None, choice: int, threads: int
) -> None:
    function, feeds = layer
    target = Target.host(lanes) if lanes else processor(*AVX2)
    assume(target.enabled_features <= Target.host().enabled_features)
    assume(target.lanes <= target.native_lanes)  # bytes are not transformed for wider ones
    wanted = evaluate(function, feeds)
    net = glow_nb.compile(
        by_tiles(function, target, choice), backend=CpuBackend(target), threads=threads
    )
    assert any(kernel.family == "winograd" for kernel in net.kernels)
    found = net.run(feeds)
    for name, array in wanted.items():
        np.testing.assert_array_equal(found[name], array)
