"""Networks of images whose sizes are known only when they run: one program for all of them."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest

from glow_nb.base.size import Symbol
from glow_nb.base.types import ElementKind, TensorType
from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Function, Value
from glow_nb.hlir.ops.windows import Window
from tests.in_turn import marked, marked_rows
from tests.open_programs import check_sizes
from tests.targets import SMALL_CORE

ODD = [{"b": 2, "h": 11, "w": 40}, {"b": 1, "h": 8, "w": 21}]
SETS = [{"b": 1, "h": 9, "w": 8}, {"b": 2, "h": 16, "w": 20}]


def _sizes() -> list[int]:
    lows = {"b": 1, "h": 8, "w": 8}
    return [Symbol(name, 8, low, 512).size for name, low in lows.items()]


def _convolved(
    builder: Builder,
    x: Value,
    depth: int,
    taps: int,
    stride: int,
    group: int,
    pads: tuple[int, ...] | None = None,
) -> Value:
    rng, channels = np.random.default_rng(depth), x.type.shape[-1]
    filter = rng.standard_normal((depth, taps, taps, channels // group), np.float32) / 9
    made = ops.Convolution(
        x,
        builder.constant("w", filter),
        builder.constant("b", rng.standard_normal(depth, np.float32)),
        kernel=(taps, taps),
        stride=(stride, stride),
        pads=pads or (taps // 2,) * 4,
        dilation=(1, 1),
        group=group,
    )
    return builder.emit(ops.Relu(builder.emit(made)))


def _network() -> Function:
    """Layers of all kinds, each half as large, with a way around two of them."""
    builder = Builder("images")
    x: Value = builder.input("x", TensorType(ElementKind.FLOAT32, (*_sizes(), 3)))
    x = _convolved(builder, x, 16, 3, 2, 1)
    x = _convolved(builder, x, 16, 3, 1, 16)
    around = x
    x = builder.emit(ops.Add(_convolved(builder, x, 16, 1, 1, 1), around))
    pool = ops.MaxPool(x, kernel=(3, 3), stride=(2, 2), pads=(1, 1, 1, 1), dilation=(1, 1))
    x = builder.emit(pool)
    builder.save(_convolved(builder, x, 40, 3, 1, 1), "y")
    return builder.function()


def _upsampling(taps: int, pad: int, more: int) -> Function:
    builder = Builder("upsampling")
    batch, *image = _sizes()
    x = builder.input("x", TensorType(ElementKind.FLOAT32, (batch, *image, 8)))
    rng = np.random.default_rng(0)
    filter = builder.constant("w", rng.standard_normal((8, taps, taps, 6), np.float32))
    size = tuple(2 * (n - 1) + taps - 2 * pad + more for n in image)
    made = ops.TransposedConvolution(
        x, filter, kernel=(taps, taps), stride=(2, 2), pads=(pad,) * 4, dilation=(1, 1), size=size
    )
    builder.save(builder.emit(made), "y")
    return builder.function()


def _same(taps: int, stride: int, sizes: Iterable[int], *, is_upper: bool) -> tuple[int, ...]:
    """Return the pads with which a stride keeps ``ceil(size / stride)`` places."""
    totals = [((n + stride - 1) // stride - 1) * stride + taps - n for n in sizes]
    small, large = [n // 2 for n in totals], [n - n // 2 for n in totals]
    return (*small, *large) if is_upper else (*large, *small)


@pytest.mark.jit
@pytest.mark.parametrize(
    ("taps", "stride", "group", "is_upper"),
    [(3, 2, 8, True), *(pytest.param(*each, marks=pytest.mark.slow)
     for each in ((3, 2, 1, True), (5, 2, 8, False), (7, 3, 8, True), (5, 3, 2, True)))],
)  # fmt: skip
@pytest.mark.parametrize("sizes_of_run", marked(ODD, ODD[1:]), ids=str)
def test_pads_may_depend_on_the_sizes(
    taps: int, stride: int, group: int, is_upper: bool, sizes_of_run: dict[str, int]
) -> None:
    builder = Builder("same")
    sizes = _sizes()
    x: Value = builder.input("x", TensorType(ElementKind.FLOAT32, (*sizes, 8)))
    pads = _same(taps, stride, sizes[1:], is_upper=is_upper)
    x = _convolved(builder, x, 16, taps, stride, group, pads)
    window = Window((3, 3), (2, 2), _same(3, 2, x.type.shape[1:-1], is_upper=is_upper), (1, 1))
    builder.save(builder.emit(ops.MaxPool(x, **window.attributes)), "y")
    check_sizes(builder.function(), [sizes_of_run], target=SMALL_CORE)


@pytest.mark.jit
def test_one_program_runs_for_images_of_all_sizes() -> None:
    check_sizes(_network(), SETS[1:], target=SMALL_CORE, threads=2)


@pytest.mark.jit
@pytest.mark.parametrize("sizes", marked(SETS, SETS[:1]), ids=str)
@pytest.mark.parametrize(
    ("taps", "pad", "more"), marked_rows([(4, 1, 0), (2, 0, 0), (3, 1, 1)], only=[(4, 1, 0)])
)
def test_one_program_enlarges_images_of_all_sizes(
    taps: int, pad: int, more: int, sizes: dict[str, int]
) -> None:
    check_sizes(_upsampling(taps, pad, more), [sizes], target=SMALL_CORE)


@pytest.mark.jit
def test_images_that_are_pixels_in_the_example_are_transposed() -> None:
    builder = Builder("pixels")
    batch, rows, columns = (Symbol(name, 1, 1, 64).size for name in "bhw")
    x = builder.input("x", TensorType(ElementKind.FLOAT32, (batch, rows, columns, 9)))
    builder.save(builder.emit(ops.Transpose(x, (0, 3, 1, 2))), "y")
    check_sizes(builder.function(), SETS[1:], target=SMALL_CORE, tolerance=0)
