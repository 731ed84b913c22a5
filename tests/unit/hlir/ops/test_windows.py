"""Convolutions and pools against sums over windows written out, and against ONNX."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glow_nb.base.errors import VerifyError
from glow_nb.base.types import TensorType
from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Function, Value
from glow_nb.kernels import operators
from glow_nb.kernels.operators.panels import (
    pack_bias,
    pack_depthwise_filter,
    pack_filter,
    pack_grouped_filter,
    pack_matrix,
)
from tests.unit.hlir.ops.applying import (
    Numbers,
    apply,
    channels_first,
    channels_last,
    check_close,
    floats,
    onnx_result,
    run,
    value,
)


@dataclass(frozen=True)
class Window:
    """A window and the size of what it slides over."""

    size: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    pads: tuple[int, ...]
    dilation: tuple[int, ...]

    @property
    def attributes(self) -> dict[str, Any]:
        return {
            "kernel": self.kernel,
            "stride": self.stride,
            "pads": self.pads,
            "dilation": self.dilation,
        }

    @property
    def onnx_attributes(self) -> dict[str, Any]:
        return {
            "kernel_shape": self.kernel,
            "strides": self.stride,
            "pads": self.pads,
            "dilations": self.dilation,
        }

    @property
    def out(self) -> tuple[int, ...]:
        rank = len(self.size)
        return tuple(
            (n + b + e - d * (k - 1) - 1) // s + 1
            for n, b, e, d, k, s in zip(
                self.size,
                self.pads[:rank],
                self.pads[rank:],
                self.dilation,
                self.kernel,
                self.stride,
                strict=True,
            )
        )

    def cells(self, place: tuple[int, ...]) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
        """Return (tap, place in the input) of the cells at one place, padding left out."""
        found = []
        for tap in itertools.product(*map(range, self.kernel)):
            source = tuple(
                p * s + t * d - b
                for p, s, t, d, b in zip(
                    place, self.stride, tap, self.dilation, self.pads[: len(place)], strict=True
                )
            )
            if all(0 <= i < n for i, n in zip(source, self.size, strict=True)):
                found.append((tap, source))
        return found


@st.composite
def windows(draw: st.DrawFn, pads_below_kernel: bool = False) -> Window:
    """Any window that fits."""
    rank = draw(st.integers(1, 3))
    kernel, stride, dilation, size, begins, ends = [], [], [], [], [], []
    for _ in range(rank):
        k, d = draw(st.integers(1, 3)), draw(st.integers(1, 2))
        most = k - 1 if pads_below_kernel else 2
        b, e = draw(st.integers(0, most)), draw(st.integers(0, most))
        span = d * (k - 1) + 1
        size.append(draw(st.integers(max(1, span - b - e), max(1, span - b - e) + 3)))
        kernel.append(k)
        dilation.append(d)
        stride.append(draw(st.integers(1, 3)))
        begins.append(b)
        ends.append(e)
    return Window(tuple(size), tuple(kernel), tuple(stride), (*begins, *ends), tuple(dilation))


def at(x: Numbers, place: tuple[int, ...]) -> Numbers:
    """Return the ``[N, C]`` view of an ``N..C`` array at one place."""
    for i in place:
        x = x[:, i]
    return x


def convolution_by_hand(
    w: Window, x: Numbers, filter: Numbers, bias: Numbers, group: int
) -> Numbers:
    """Sum over the cells of each window, group after group."""
    depth, inner = filter.shape[0], filter.shape[-1]
    result = np.zeros((x.shape[0], *w.out, depth))
    for place in np.ndindex(*w.out):
        for k in range(depth):
            first = k // (depth // group) * inner
            for tap, source in w.cells(place):
                cell = at(x, source)[:, first : first + inner]
                at(result, place)[:, k] += cell @ filter[(k, *tap)].astype(np.float64)
    return (result + bias).astype(np.float32)


@given(windows(), st.sampled_from([(1, 2, 3), (2, 2, 1), (3, 1, 1), (3, 1, 2), (1, 1, 4)]))
@settings(max_examples=50)
def test_convolution(w: Window, channels: tuple[int, int, int]) -> None:
    group, inner, outer = channels
    x = floats(2, *w.size, group * inner)
    filter, bias = floats(group * outer, *w.kernel, inner, seed=1), floats(group * outer, seed=2)
    found = apply(ops.Convolution, x, filter, bias, **w.attributes, group=group)
    check_close(found, convolution_by_hand(w, x, filter, bias, group))


def test_convolution_agrees_with_onnx() -> None:
    w = Window((7, 9), (3, 3), (2, 1), (1, 0, 2, 1), (1, 2))
    x, filter, bias = floats(2, 7, 9, 4), floats(6, 3, 3, 2, seed=1), floats(6, seed=2)
    found = apply(ops.Convolution, x, filter, bias, **w.attributes, group=2)
    expected = onnx_result(
        "Conv", channels_first(x), channels_first(filter), bias, **w.onnx_attributes, group=2
    )
    check_close(found, channels_last(expected))


def run_packed(node_of: Any, *operands: Numbers) -> Numbers:
    """Run the function that *node_of* builds from a builder and inputs."""
    b = Builder()
    inputs = [b.input(f"x{i}", TensorType.of(array)) for i, array in enumerate(operands)]
    b.save(b.emit(node_of(b, *inputs)), "y")
    function: Function = b.function()
    result: Numbers = run(function, *operands)
    return result


@given(
    windows(),
    st.sampled_from([(1, 2, 5), (2, 2, 3), (2, 1, 4), (1, 3, 8)]),
    st.sampled_from([1, 4, 8]),
)
@settings(max_examples=50)
def test_packed_convolution_means_the_same(
    w: Window, channels: tuple[int, int, int], block: int
) -> None:
    group, inner, outer = channels
    depth = group * outer
    x = floats(1, *w.size, group * inner)
    filter, bias = floats(depth, *w.kernel, inner, seed=1), floats(depth, seed=2)

    def node_of(b: Builder, x: Value, filter: Value, bias: Value) -> operators.PackedConvolution:
        return operators.PackedConvolution(
            x,
            pack_filter(b, filter, group, block),
            pack_bias(b, bias, group, block),
            depth=depth,
            **w.attributes,
            group=group,
            block=block,
        )

    expected = apply(ops.Convolution, x, filter, bias, **w.attributes, group=group)
    check_close(run_packed(node_of, x, filter, bias), expected)


@given(windows(), st.integers(1, 3), st.integers(1, 3))
@settings(max_examples=50)
def test_depthwise_convolution_means_the_same(w: Window, channels: int, multiplier: int) -> None:
    depth = channels * multiplier
    x = floats(2, *w.size, channels)
    filter, bias = floats(depth, *w.kernel, 1, seed=1), floats(depth, seed=2)

    def node_of(b: Builder, x: Value, filter: Value, bias: Value) -> operators.DepthwiseConvolution:
        packed = pack_depthwise_filter(b, filter)
        return operators.DepthwiseConvolution(x, packed, bias, **w.attributes)

    expected = apply(ops.Convolution, x, filter, bias, **w.attributes, group=channels)
    check_close(run_packed(node_of, x, filter, bias), expected)


@given(windows(), st.integers(1, 3), st.integers(1, 4))
@settings(max_examples=50)
def test_grouped_convolution_means_the_same(w: Window, groups: int, size: int) -> None:
    channels = groups * size
    x = floats(2, *w.size, channels)
    filter, bias = floats(channels, *w.kernel, size, seed=1), floats(channels, seed=2)

    def node_of(b: Builder, x: Value, filter: Value, bias: Value) -> operators.GroupedConvolution:
        packed = pack_grouped_filter(b, filter)
        return operators.GroupedConvolution(x, packed, bias, **w.attributes)

    expected = apply(ops.Convolution, x, filter, bias, **w.attributes, group=groups)
    check_close(run_packed(node_of, x, filter, bias), expected)


@given(
    st.lists(st.integers(1, 3), max_size=2),
    st.tuples(*[st.integers(1, 9)] * 3),
    st.sampled_from([1, 4, 8]),
    st.booleans(),
    st.booleans(),
)
def test_packed_product_means_the_same(
    batch: list[int], sizes: tuple[int, int, int], block: int, is_shared: bool, has_bias: bool
) -> None:
    m, k, n = sizes
    x, y = floats(*batch, m, k), floats(*(() if is_shared else batch), k, n, seed=1)
    bias = floats(n, seed=2)

    def node_of(b: Builder, x: Value, y: Value, bias: Value) -> operators.PackedMatMul:
        packed = pack_bias(b, bias, 1, block) if has_bias else None
        return operators.PackedMatMul(x, pack_matrix(b, y, block), packed, n, block)

    check_close(run_packed(node_of, x, y, bias), x @ y + bias * has_bias)


@given(windows())
@settings(max_examples=50)
def test_max_pool(w: Window) -> None:
    x = floats(2, *w.size, 3)
    found = apply(ops.MaxPool, x, **w.attributes)
    for place in np.ndindex(*w.out):
        cells = [at(x, source) for _, source in w.cells(place)]
        expected = np.max(cells, axis=0) if cells else np.full((2, 3), -math.inf)
        np.testing.assert_array_equal(at(found, place), expected)


def test_max_pool_of_integers_and_nan() -> None:
    attributes: dict[str, Any] = Window((2,), (2,), (1,), (1, 1), (1,)).attributes
    x = np.array([-5, -7], np.int8).reshape(1, 2, 1)
    np.testing.assert_array_equal(apply(ops.MaxPool, x, **attributes).ravel(), [-5, -5, -7])
    y = np.array([math.nan, 1], np.float32).reshape(1, 2, 1)
    found = apply(ops.MaxPool, y, **attributes).ravel()
    np.testing.assert_array_equal(found, [math.nan, math.nan, 1])


@given(windows(pads_below_kernel=True), st.booleans())
@settings(max_examples=50)
def test_max_pool_names_the_place(w: Window, column_major: bool) -> None:
    x = np.random.default_rng(0).integers(0, 4, (2, *w.size, 3)).astype(np.float32)
    values, indices = apply(ops.MaxPoolWithArgmax, x, **w.attributes, column_major=column_major)
    np.testing.assert_array_equal(values, apply(ops.MaxPool, x, **w.attributes))
    grid = np.arange(math.prod(w.size)).reshape(w.size, order="F" if column_major else "C")
    for n, *place, c in np.ndindex(*values.shape):
        sources = [source for _, source in w.cells(tuple(place))]
        cells = [x[(n, *source, c)] for source in sources]
        expected = -1
        if cells:
            expected = (n * 3 + c) * grid.size + grid[sources[int(np.argmax(cells))]]
        assert indices[(n, *place, c)] == expected


@given(windows(pads_below_kernel=True), st.booleans())
@settings(max_examples=50)
def test_avg_pool(w: Window, count_padding: bool) -> None:
    x = floats(2, *w.size, 3)
    found = apply(ops.AvgPool, x, **w.attributes, count_padding=count_padding)
    for place in np.ndindex(*w.out):
        cells = [at(x, source) for _, source in w.cells(place)]
        count = math.prod(w.kernel) if count_padding else len(cells)
        total = np.sum(cells, axis=0) if cells else np.zeros((2, 3))
        expected = total / count if count else np.full((2, 3), math.nan)
        check_close(at(found, place), expected.astype(np.float32))


@pytest.mark.parametrize("count_padding", [False, True])
def test_rounding_up_adds_cells_that_never_count(count_padding: bool) -> None:
    x = np.ones((1, 4, 1), np.float32)
    found = apply(
        ops.AvgPool,
        x,
        kernel=(3,),
        stride=(3,),
        pads=(1, 2),
        dilation=(1,),
        count_padding=count_padding,
        uncounted=(1,),
    )
    counted = [2 / 3, 2 / 3] if count_padding else [1, 1]
    np.testing.assert_allclose(found.ravel(), counted, rtol=1e-6)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"kernel": (3,)}, ["kernel (3,)", "2 positive"]),
        ({"stride": (0, 1)}, ["stride (0, 1)", "positive"]),
        ({"pads": (1, 1)}, ["pads (1, 1)", "4 numbers", "begins"]),
        ({"pads": (1, 1, 0, -1)}, ["-1", ">= 0"]),
        ({"dilation": (4, 1)}, ["(9, 3)", "(8, 8)"]),
    ],
)
def test_windows_that_do_not_fit_are_named(changes: dict[str, Any], words: list[str]) -> None:
    attributes = Window((8, 8), (3, 3), (1, 1), (0, 0, 0, 0), (1, 1)).attributes
    with pytest.raises(VerifyError) as caught:
        ops.MaxPool(value("float32<1 x 8 x 8 x 4>"), **{**attributes, **changes})
    assert all(word in str(caught.value) for word in words)


@pytest.mark.parametrize(
    ("filter", "bias", "group", "words"),
    [
        ("float32<6 x 3 x 3 x 3>", "float32<6>", 1, ["'filter'", "6 x 3 x 3 x 3", "x 4>"]),
        ("float32<6 x 3 x 3 x 4>", "float32<4>", 1, ["'bias'", "float32<4>", "float32<6>"]),
        ("float32<6 x 3 x 3 x 4>", "float32<6>", 3, ["4 channels", "group = 3"]),
        ("float32<5 x 3 x 3 x 2>", "float32<5>", 2, ["5 results", "group = 2"]),
        ("float32<>", "float32<5>", 1, ["'filter'", "float32<>"]),
    ],
)
def test_filters_that_do_not_fit_are_named(
    filter: str, bias: str, group: int, words: list[str]
) -> None:
    attributes = Window((8, 8), (3, 3), (1, 1), (0, 0, 0, 0), (1, 1)).attributes
    x = value("float32<1 x 8 x 8 x 4>")
    with pytest.raises(VerifyError) as caught:
        ops.Convolution(x, value(filter), value(bias), **attributes, group=group)
    assert all(word in str(caught.value) for word in words)


def test_ranks_that_are_no_image_are_named() -> None:
    with pytest.raises(VerifyError, match="spatial"):
        ops.MaxPool(value("float32<1 x 8>"), kernel=(), stride=(), pads=(), dilation=())
