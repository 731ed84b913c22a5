"""Winograd's operators mean what a convolution means."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from glow_nb.base.errors import VerifyError
from glow_nb.base.types import Array, ElementKind, TensorType
from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.evaluate import evaluate
from glow_nb.hlir.graph import Function, Value
from glow_nb.hlir.lower import lower
from glow_nb.hlir.ops.windows import Window
from glow_nb.kernels import operators
from glow_nb.kernels.operators.panels import pack_bias, pack_filter

# batch, input, channels, depth, kernel, tile, pads, group, block; then stride and dilation, of 1 if
# they are left out
CASES = {
    "4x4": (2, (9, 13), 5, 19, (3, 3), (4, 4), (1, 1, 1, 1), 1, 16),
    "2x2 one sided pads": (1, (6, 7), 3, 8, (3, 3), (2, 2), (0, 2, 1, 0), 1, 8),
    "mixed": (1, (7, 10), 6, 10, (3, 3), (2, 4), (1, 0, 1, 0), 2, 4),
    "5x5": (1, (8, 6), 4, 6, (5, 5), (2, 4), (2, 2, 2, 2), 2, 8),
    "row": (1, (5, 11), 4, 6, (1, 3), (1, 4), (0, 1, 0, 1), 1, 8),
    "rank 1": (2, (11,), 4, 6, (3,), (4,), (1, 1), 1, 8),
    "planes": (1, (2, 5, 6), 4, 6, (1, 3, 3), (1, 4, 2), (0, 1, 1, 1, 1, 1), 1, 8),
    "depth": (1, (6, 2, 3), 4, 6, (3, 1, 1), (4, 1, 1), (1, 0, 0, 1, 0, 0), 1, 8),
    "volume": (1, (3, 5, 6), 4, 6, (3, 3, 3), (1, 4, 2), (1, 1, 1, 2, 1, 0), 2, 8),
    "huge pads": (1, (2, 3), 2, 4, (3, 3), (4, 4), (4, 4, 4, 4), 1, 8),
    "dilated": (2, (9, 13), 5, 19, (3, 3), (4, 4), (2, 2, 2, 2), 1, 16, (1, 1), (2, 2)),
    "dilated unevenly": (
        1,
        (7, 11),
        4,
        6,
        (3, 3),
        (2, 4),
        (3, 0, 1, 2),
        2,
        8,
        (1, 1),
        (3, 2),
    ),
    "dilated rank 1": (2, (23,), 4, 6, (3,), (4,), (6, 0), 1, 8, (1,), (3,)),
    "dilated beyond input": (1, (3, 4), 2, 4, (3, 3), (2, 2), (5, 6, 5, 6), 1, 8, (1, 1), (5, 6)),
    "dilated with stride": (1, (9, 14), 4, 6, (3, 3), (4, 3), (1,) * 4, 1, 8, (2, 1), (1, 2)),
    "dilated planes": (
        1,
        (4, 9, 8),
        4,
        6,
        (2, 3, 3),
        (1, 2, 4),
        (1,) * 6,
        1,
        8,
        (1, 1, 1),
        (2, 3, 2),
    ),
    "stride": (2, (9, 14), 5, 9, (3, 3), (4, 3), (1, 1, 1, 1), 1, 16, (2, 2)),
    "stride of rows": (1, (7, 10), 4, 6, (5, 3), (2, 4), (2, 0, 1, 1), 2, 8, (2, 1)),
    "stride of planes": (1, (5, 6, 7), 4, 6, (3, 3, 3), (1, 2, 2), (1,) * 6, 1, 8, (2, 2, 2)),
}

STRIDED = [name for name in CASES if "stride" in name]


def case(name: str) -> tuple[Any, ...]:
    """Return a case with its stride and dilation."""
    kernel = CASES[name][4]
    assert isinstance(kernel, tuple)
    ones = (1,) * len(kernel)
    return (*CASES[name], ones, ones)[:11]


def build(name: str, *, winograd: bool) -> Function:
    batch, spatial, channels, depth, kernel, tile, pads, group, block, stride, dilation = case(name)
    random = np.random.default_rng(0)
    b = Builder()
    x = b.input("x", f"float64<{' x '.join(map(str, (batch, *spatial, channels)))}>")
    filter = b.constant("w", random.normal(size=(depth, *kernel, channels // group)))
    bias = b.constant("b", random.normal(size=depth))
    if winograd:
        packed = b.emit(
            operators.WinogradFilter(pack_filter(b, filter, group, block), tile, stride)
        )
        offsets = pack_bias(b, bias, group, block)
        made = operators.WinogradConvolution(
            x,
            packed,
            offsets,
            depth=depth,
            kernel=kernel,
            tile=tile,
            stride=stride,
            pads=pads,
            dilation=dilation,
            group=group,
            block=block,
            guarded=True,
        )
        b.save(b.emit(made), "y")
    else:
        plain = ops.Convolution(
            x, filter, bias, kernel=kernel, stride=stride, pads=pads, dilation=dilation, group=group
        )
        b.save(b.emit(plain), "y")
    return b.function()


@pytest.mark.parametrize("name", CASES)
def test_winograd_convolution_is_a_convolution(name: str) -> None:
    plain, tiled = build(name, winograd=False), build(name, winograd=True)
    feeds = {"x": np.random.default_rng(1).normal(size=plain.inputs[0].type.shape)}
    expected = evaluate(plain, feeds)["y"]
    for function in (tiled, lower(tiled)):
        found = evaluate(function, feeds)["y"]
        np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-11)
    assert not any(isinstance(node, operators.WinogradFilter) for node in lower(tiled).nodes)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_a_number_that_is_not_finite_stays_in_its_windows(name: str, number: float) -> None:
    plain, tiled = build(name, winograd=False), build(name, winograd=True)
    x = np.random.default_rng(1).normal(size=plain.inputs[0].type.shape)
    x.flat[x.size // 2] = number
    expected = evaluate(plain, {"x": x})["y"]
    assert not np.isfinite(expected).all()
    np.testing.assert_allclose(evaluate(tiled, {"x": x})["y"], expected, rtol=1e-9, atol=1e-9)


def test_a_dilation_far_beyond_the_input_makes_no_more_tiles() -> None:
    far = 1 << 40
    b = Builder()
    node = operators.WinogradConvolution(
        b.input("x", "float32<1 x 3 x 2 x 4>"),
        b.input("w", "float32<1 x 1 x 6 x 6 x 4 x 8>"),
        b.input("b", "float32<8>"),
        depth=8,
        kernel=(3, 3),
        tile=(4, 4),
        stride=(1, 1),
        pads=(far,) * 4,
        dilation=(far, far),
        group=1,
        block=8,
    )
    assert node.counts == (3, 2)


def test_dilation_and_stride_together_are_refused() -> None:
    b = Builder()
    window = Window((3, 3), (2, 1), (1, 1, 1, 1), (2, 1)).attributes
    with pytest.raises(VerifyError, match=r"stride \[2, 1\] and dilation \[2, 1\]: one of them"):
        operators.WinogradConvolution(
            b.input("x", "float32<1 x 9 x 9 x 4>"),
            b.input("w", "float32<1 x 1 x 9 x 6 x 4 x 8>"),
            b.input("b", "float32<8>"),
            depth=8,
            tile=(4, 4),
            group=1,
            block=8,
            **window,
        )


def test_tiles_without_an_algorithm_are_refused() -> None:
    b = Builder()
    filter = b.input("w", "float32<1 x 1 x 3 x 3 x 4 x 8>")
    with pytest.raises(VerifyError, match="no algorithm for 5 outputs of 3 taps with stride 1"):
        operators.WinogradFilter(filter, (4, 5), (1, 1))
    with pytest.raises(VerifyError, match="no algorithm for 5 outputs of 3 taps with stride 4"):
        operators.WinogradFilter(filter, (4, 5), (1, 4))
    with pytest.raises(VerifyError, match=r"stride \[2\] must have a size for each dimension"):
        operators.WinogradFilter(filter, (4, 4), (2,))
    with pytest.raises(VerifyError, match=r"lacks the dimensions of tile \[4\]"):
        operators.WinogradFilter(filter, (4,), (1,))


def test_a_filter_for_other_tiles_is_refused() -> None:
    """Its sizes would fit: five products for tiles of 3 and stride 1, and of 2 and stride 2."""
    b = Builder()
    x, bias = b.input("x", "float32<1 x 9 x 9 x 4>"), b.input("b", "float32<8>")
    packed = b.input("w", "float32<1 x 1 x 3 x 3 x 4 x 8>")
    filter = b.emit(operators.WinogradFilter(packed, (2, 2), (2, 2)))
    problem = (
        "'filter' is made for tile [2, 2], kernel [3, 3] and stride [2, 2], not for tile [3, 3], "
        "kernel [3, 3] and stride [1, 1]"
    )
    with pytest.raises(VerifyError, match=re.escape(problem)):
        operators.WinogradConvolution(
            x,
            filter,
            bias,
            depth=8,
            kernel=(3, 3),
            tile=(3, 3),
            stride=(1, 1),
            pads=(1, 1, 1, 1),
            dilation=(1, 1),
            group=1,
            block=8,
        )


def build_of_bytes(
    name: str, *, winograd: bool, outside: int, bound: int
) -> tuple[Function, dict[str, Array]]:
    """Return a convolution of bytes with weights from -*bound* to *bound*, and its input."""
    batch, spatial, channels, depth, kernel, tile, pads, group, block, stride, dilation = case(name)
    random = np.random.default_rng(2)
    b = Builder()
    shape = (batch, *spatial, channels)
    x: Value = b.input("x", f"uint8<{' x '.join(map(str, shape))}>")
    weights = random.integers(-bound, bound + 1, (depth, *kernel, channels // group), np.int8)
    filter = b.constant("w", weights)
    bias = b.constant("b", random.integers(-(2**31), 2**31, depth).astype(np.int32))
    rank = len(kernel)
    if winograd:
        packed = pack_filter(b, filter, group, block, 2, taps_inside=True)
        offsets = pack_bias(b, bias, group, block)
        made = operators.WinogradConvolution(
            x,
            packed,
            offsets,
            depth=depth,
            kernel=kernel,
            tile=tile,
            stride=stride,
            pads=pads,
            dilation=dilation,
            group=group,
            block=block,
            pad_value=outside,
        )
        b.save(b.emit(made), "y")
    else:
        around = (0, *pads[:rank], 0, 0, *pads[rank:], 0)
        x = b.emit(ops.Pad(x, around, value=float(outside)))
        plain = ops.Convolution(
            x,
            filter,
            bias,
            kernel=kernel,
            stride=stride,
            pads=(0,) * 2 * rank,
            dilation=dilation,
            group=group,
        )
        b.save(b.emit(plain), "y")
    return b.function(), {"x": random.integers(0, 256, shape, np.uint8)}


@pytest.mark.parametrize("name", [name for name in CASES if name not in ("5x5", *STRIDED)])
def test_winograd_of_bytes_is_exact(name: str) -> None:
    plain, feeds = build_of_bytes(name, winograd=False, outside=7, bound=127)
    tiled, _ = build_of_bytes(name, winograd=True, outside=7, bound=127)
    expected = evaluate(plain, feeds)["y"]
    for function in (tiled, lower(tiled)):
        found = evaluate(function, feeds)["y"]
        assert found.dtype == np.int32
        np.testing.assert_array_equal(found, expected)


def of_bytes(**changes: Any) -> operators.WinogradConvolution:
    b = Builder()
    fields: dict[str, Any] = {
        "depth": 8,
        "kernel": (3, 3),
        "tile": (4, 4),
        "stride": (1, 1),
        "dilation": (1, 1),
        "pads": (1, 1, 1, 1),
        "group": 1,
    }
    kind = changes.pop("kind", "int8")
    return operators.WinogradConvolution(
        b.input("x", "uint8<1 x 5 x 5 x 4>"),
        b.input("w", f"{kind}<1 x 1 x 2 x 3 x 3 x 16>"),
        b.input("b", "int32<8>"),
        **fields | {"block": 8} | changes,
    )


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        (
            {"pad_value": 256},
            "pad_value is 256, but for input uint8<1 x 5 x 5 x 4> it must be from 0",
        ),
        ({"guarded": True}, "guarded is true, but integers are finite; leave it false"),
        (
            {"kind": "int32"},
            "'filter' is int32<1 x 1 x 2 x 3 x 3 x 16>, but its kind must be one of",
        ),
        (
            {"tile": (4, 4), "kernel": (5, 5)},
            "no algorithm for 4 outputs of 5 taps of integers with stride 1; choose another tile",
        ),
        (
            {"stride": (2, 2)},
            "no algorithm for 4 outputs of 3 taps of integers with stride 2; choose another tile",
        ),
    ],
)
def test_what_bytes_do_not_allow_is_refused(changes: dict[str, Any], problem: str) -> None:
    assert of_bytes().type == TensorType(ElementKind.INT32, (1, 5, 5, 8))
    with pytest.raises(VerifyError, match=re.escape(problem)):
        of_bytes(**changes)


def test_floats_have_zeros_outside() -> None:
    b = Builder()
    with pytest.raises(VerifyError, match=r"pad_value is 1, but around input .* it must be 0"):
        operators.WinogradConvolution(
            b.input("x", "float32<1 x 5 x 5 x 4>"),
            b.input("w", "float32<1 x 1 x 6 x 6 x 4 x 8>"),
            b.input("b", "float32<8>"),
            depth=8,
            kernel=(3, 3),
            tile=(4, 4),
            stride=(1, 1),
            pads=(1, 1, 1, 1),
            dilation=(1, 1),
            group=1,
            block=8,
            pad_value=1,
        )
