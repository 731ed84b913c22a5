"""What is selected for products of bytes: by the instructions that a processor has."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from glow_nb.backends.cpu.select_packed_operators import select_packed_operators
from glow_nb.base.schema import operands_of
from glow_nb.base.types import Array, ElementKind, TensorType
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Function, Node, Value
from glow_nb.hlir.ops import (
    ConvertTo,
    Convolution,
    MatMul,
    Transpose,
)
from glow_nb.kernels.operators import (
    DepthwiseConvolution,
    PackedConvolution,
    PackedMatMul,
    PairedConvolution,
    WinogradConvolution,
)
from glow_nb.kernels.operators.pairings import STEP_INPUTS
from glow_nb.kernels.target import Target

AVX2 = "+sse2,+avx,+avx2,+fma"


def processor(features: str) -> Target:
    """Return a processor with eight lanes."""
    return replace(Target.host(8), cpu="x86-64", features=features)


def integer_product(*, transposed: bool, features: str, weight: int = 1) -> list[Node]:
    """Return the nodes that replace bytes, maybe transposed, times constant bytes."""
    builder = Builder()
    x: Value = builder.input("x", "uint8<32 x 9>" if transposed else "uint8<9 x 32>")
    if transposed:
        x = builder.emit(Transpose(x, (1, 0)))
    w = builder.constant("w", np.full((32, 40), weight, np.int8))
    builder.save(builder.emit(MatMul(x, w)), "y")
    return list(select_packed_operators(builder.function(), target=processor(features)))


@pytest.mark.parametrize("transposed", [False, True])
def test_without_instructions_left_bytes_are_widened_and_right_ones_are_not(
    transposed: bool,
) -> None:
    nodes = integer_product(transposed=transposed, features="+sse2")
    (product,) = (node for node in nodes if isinstance(node, PackedMatMul))
    assert product.lhs.type == TensorType(ElementKind.INT32, (9, 32))
    assert product.rhs.type.kind is ElementKind.INT8
    assert isinstance(product.lhs, Transpose if transposed else ConvertTo)


@pytest.mark.parametrize(
    ("features", "weight", "factors"), [(AVX2, 100, 2), (f"{AVX2},+avxvnni", 1, 4)]
)
def test_constant_bytes_lie_in_groups_that_the_processor_multiplies(
    features: str, weight: int, factors: int
) -> None:
    nodes = integer_product(transposed=False, features=features, weight=weight)
    (product,) = (node for node in nodes if isinstance(node, PackedMatMul))
    assert product.factors == factors
    assert product.lhs.type.kind is ElementKind.UINT8
    assert product.rhs.type.kind is ElementKind.INT8


@pytest.mark.parametrize(
    ("rows", "kind", "factors"), [(1, "int8", None), (40, "int8", 4), (40, "uint8", 2)]
)
def test_bytes_that_come_at_run_time_are_laid_out_for_many_rows(
    rows: int, kind: str, factors: int | None
) -> None:
    builder = Builder()
    x = builder.input("x", f"uint8<{rows} x 32>")
    y = builder.input("y", f"{kind}<32 x 40>")
    builder.save(builder.emit(MatMul(x, y)), "z")
    target = processor(f"{AVX2},+avxvnni")
    nodes = list(select_packed_operators(builder.function(), target=target))
    found = [node.factors for node in nodes if isinstance(node, PackedMatMul)]
    assert found == ([] if factors is None else [factors])


def convolution_of_bytes(kind: str, group: int, features: str) -> list[Node]:
    """Return the nodes that replace a convolution of bytes of *kind*."""
    builder = Builder()
    x: Value = builder.input("x", f"{kind}<1 x 5 x 5 x 8>")
    filter = builder.constant("w", np.ones((8, 3, 3, 8 // group), np.int8))
    bias = builder.constant("b", np.ones(8, np.int32))
    made = Convolution(
        x,
        filter,
        bias,
        kernel=(3, 3),
        stride=(1, 1),
        pads=(1, 1, 1, 1),
        dilation=(1, 1),
        group=group,
        pad_value=3,
    )
    builder.save(builder.emit(made), "y")
    function = select_packed_operators(builder.function(), target=processor(features))
    return list(function)


@pytest.mark.parametrize(("group", "form"), [(1, PackedConvolution), (8, DepthwiseConvolution)])
def test_without_instructions_bytes_are_widened_but_for_single_channels(
    group: int, form: type[Node]
) -> None:
    nodes = convolution_of_bytes("uint8", group, "+sse2")
    (packed,) = (node for node in nodes if isinstance(node, form))
    input, weights, *_ = operands_of(packed)
    wanted = ["int32", "int32"] if group == 1 else ["uint8", "int8"]
    assert [input.type.kind.value, weights.type.kind.value] == wanted


@pytest.mark.parametrize(
    ("kind", "features", "factors", "outside"),
    [
        ("uint8", f"{AVX2},+avxvnni", 4, 3),
        ("int8", f"{AVX2},+avxvnni", 4, 131),
        ("int8", AVX2, 4, 131),
        ("uint8", AVX2, 4, 3),
        ("int8", "+sse2", 1, 3),
    ],
)
def test_a_pad_is_a_number_that_cells_outside_count_as(
    kind: str, features: str, factors: int, outside: int
) -> None:
    nodes = convolution_of_bytes(kind, 1, features)
    forms = PackedConvolution | PairedConvolution
    (packed,) = (node for node in nodes if isinstance(node, forms))
    made = packed.factors if isinstance(packed, PackedConvolution) else STEP_INPUTS
    assert (made, packed.pad_value, packed.pads) == (factors, outside, (1, 1, 1, 1))
    assert packed.input.type.shape == (1, 5, 5, 8)


def test_groups_of_channels_do_not_lie_in_pairs() -> None:
    assert not any(
        isinstance(node, PairedConvolution) for node in convolution_of_bytes("uint8", 2, AVX2)
    )


VNNI = f"{AVX2},+avxvnni"


def layer_of_bytes(
    size: int, channels: int, weights: Array | None = None, *, left: str = "uint8", pad: float = 3.0
) -> Function:
    """Return a convolution of 3 x 3 taps as quantized networks have it."""
    builder = Builder()
    x: Value = builder.input("x", f"{left}<1 x {size} x {size} x {channels}>")
    filter: Value
    if weights is None:
        filter = builder.input("w", f"int8<{channels} x 3 x 3 x {channels}>")
    else:
        filter = builder.constant("w", weights)
    bias = builder.constant("b", np.arange(channels, dtype=np.int32))
    window: dict[str, Any] = {"kernel": (3, 3), "pads": (1,) * 4, "pad_value": int(pad)}
    made = Convolution(x, filter, bias, stride=(1, 1), dilation=(1, 1), **window)
    builder.save(builder.emit(made), "y")
    return builder.function()


def weights_of(channels: int, size: int) -> Array:
    """Return weights that are all plus or minus *size*."""
    signs = np.random.default_rng(1).choice([-1, 1], (channels, 3, 3, channels))
    return (size * signs).astype(np.int8)


@pytest.mark.parametrize("features", [AVX2, VNNI])
@pytest.mark.parametrize(("left", "pad"), [("uint8", 3.0), ("int8", -7.0)])
def test_bytes_are_transformed_where_that_is_faster(features: str, left: str, pad: float) -> None:
    function = layer_of_bytes(28, 128, weights_of(128, 30), left=left, pad=pad)
    made = select_packed_operators(function, target=processor(features))
    (packed,) = (node for node in made if isinstance(node, WinogradConvolution))
    assert (packed.tile, packed.pad_value, packed.pads) == ((4, 4), pad, (1, 1, 1, 1))
    assert packed.input.type.kind.value == left
    assert packed.filter.type.kind is ElementKind.INT8
    assert not any(isinstance(node, WinogradConvolution) for node in select_packed_operators(
        function, target=processor(features), winograd="off"
    ))  # fmt: skip


@pytest.mark.parametrize(
    ("weights", "tile"),
    [
        (weights_of(256, 100), (4, 4)),
        (np.full((256, 3, 3, 256), 57, np.int8), (4, 4)),
        (np.full((256, 3, 3, 256), 58, np.int8), (2, 4)),
        (np.full((256, 3, 3, 256), -128, np.int8), (2, 4)),
        (None, None),
    ],
)
def test_tiles_are_as_large_as_weights_allow(
    weights: Array | None, tile: tuple[int, int] | None
) -> None:
    function = layer_of_bytes(28, 256, weights)
    made = select_packed_operators(function, target=processor(AVX2))
    tiles = [node.tile for node in made if isinstance(node, WinogradConvolution)]
    assert [tuple(sorted(found)) for found in tiles] == ([] if tile is None else [tile])


def test_bytes_are_not_transformed_without_instructions_for_pairs() -> None:
    made = select_packed_operators(
        layer_of_bytes(28, 64, weights_of(64, 9)), target=processor("+sse2")
    )
    assert not any(isinstance(node, WinogradConvolution) for node in made)


def test_weights_of_two_bytes_without_a_sign_are_not_transformed() -> None:
    weights: Array = np.ones((64, 3, 3, 64), np.uint16)
    made = select_packed_operators(layer_of_bytes(28, 64, weights), target=processor(AVX2))
    assert not any(isinstance(node, WinogradConvolution) for node in made)
