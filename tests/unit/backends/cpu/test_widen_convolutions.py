"""Convolutions of 16-bit floats that become those of float32, or do not."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glow_nb.backends.cpu.widen_convolutions import widen_convolutions
from glow_nb.base.types import ElementKind
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.evaluate import evaluate
from glow_nb.hlir.graph import Constant, Function
from glow_nb.hlir.ops import ConvertTo, Convolution
from glow_nb.hlir.ops.windows import Window
from glow_nb.hlir.rewrite import substitute
from glow_nb.hlir.verify import verify
from glow_nb.kernels.machine.rows import ROWS
from glow_nb.kernels.target import Target
from tests.matrix_targets import without_matrix_registers
from tests.targets import SMALL_CORE

WITH_PAIRS = Target(
    "x86_64-unknown-linux-gnu",
    "znver4",
    "+avx,+avx2,+fma,+avx512f,+avx512vl,+avx512bf16",
    lanes=16,
)
"""A processor that multiplies pairs of bfloat16."""


def function_of(
    pixels: int,
    kind: str = "bfloat16",
    *,
    wide: bool = True,
    is_constant: bool = True,
    channels: int = 16,
) -> Function:
    builder = Builder("narrow")
    x = builder.input("x", f"{kind}<1 x {pixels} x {pixels} x {channels}>")
    numbers = np.random.default_rng(pixels).standard_normal((8, 3, 3, channels))
    dtype = ml_dtypes.bfloat16 if kind == "bfloat16" else np.float16
    filter = (
        builder.constant("w", numbers.astype(dtype))
        if is_constant
        else builder.input("w", f"{kind}<8 x 3 x 3 x {channels}>")
    )
    bias = builder.constant("b", np.ones(8, np.float32 if wide else dtype))
    window = Window((3, 3), (1, 1), (1, 1, 1, 1), (1, 1)).attributes
    builder.save(builder.emit(Convolution(x, filter, bias, **window, wide=wide)), "y")
    return builder.function()


def convolution_of(function: Function) -> Convolution:
    (found,) = (node for node in function if isinstance(node, Convolution))
    return found


def test_convolutions_that_share_a_filter() -> None:
    """The two of many pixels share one of float32; that of one pixel keeps its own."""
    builder = Builder("shared")
    numbers = np.random.default_rng(0).standard_normal((8, 1, 1, 16))
    filter = builder.constant("w", numbers.astype(ml_dtypes.bfloat16))
    bias = builder.constant("b", np.ones(8, np.float32))
    window = Window((1, 1), (1, 1), (0, 0, 0, 0), (1, 1)).attributes
    for name, pixels in (("first", 20), ("second", 16), ("third", 1)):
        x = builder.input(name, f"bfloat16<1 x {pixels} x {pixels} x 16>")
        made = builder.emit(Convolution(x, filter, bias, **window, wide=True))
        builder.save(made, f"of_{name}")
    function = widen_convolutions(builder.function(), target=SMALL_CORE)
    verify(function)
    first, second, third = (node for node in function if isinstance(node, Convolution))
    assert first.filter is second.filter
    assert [node.wide for node in (first, second, third)] == [False, False, True]


@pytest.mark.parametrize("kind", ["bfloat16", "float16"])
@pytest.mark.parametrize("is_constant", [True, False])
def test_without_an_instruction_operands_become_float32(kind: str, is_constant: bool) -> None:
    function = widen_convolutions(function_of(20, kind, is_constant=is_constant), target=SMALL_CORE)
    found = convolution_of(function)
    assert not found.wide
    assert isinstance(found.input, ConvertTo)
    assert isinstance(found.filter, Constant if is_constant else ConvertTo)
    assert {factor.type.kind for factor in found.factors} == {ElementKind.FLOAT32}


def test_a_filter_whose_numbers_are_elsewhere() -> None:
    """IR text may say the type alone, and is shown as a program all the same."""
    function = function_of(20)
    (filter,) = (each for each in function.constants if each.name == "w")
    without = substitute(function, {filter: Constant("w", filter.type, None)})
    found = convolution_of(widen_convolutions(without, target=SMALL_CORE))
    assert isinstance(found.filter, ConvertTo)


@pytest.mark.parametrize(
    ("function", "target"),
    [
        pytest.param(function_of(20), WITH_PAIRS, id="there is an instruction"),
        pytest.param(function_of(2), SMALL_CORE, id="4 pixels wait for the filter"),
        pytest.param(function_of(20, wide=False), SMALL_CORE, id="sums are rounded"),
        pytest.param(function_of(20, "float16", wide=False), SMALL_CORE, id="of a model"),
    ],
)
def test_others_stay(function: Function, target: Target) -> None:
    assert widen_convolutions(function, target=target) is function


def test_an_instruction_that_is_no_faster_is_none() -> None:
    row = ROWS["sapphire_rapids"]
    slow = without_matrix_registers(Target.of(row))
    assert not convolution_of(widen_convolutions(function_of(20), target=slow)).wide


@pytest.mark.parametrize("channels", [9, 15])
def test_what_an_instruction_does_not_fit_is_widened(channels: int) -> None:
    """Kernels multiply pairs of neighbouring channels: there is one without a neighbour."""
    function = widen_convolutions(function_of(20, channels=channels), target=WITH_PAIRS)
    assert not convolution_of(function).wide


@given(st.integers(5, 24), st.sampled_from(["bfloat16", "float16"]))
def test_results_are_the_same(pixels: int, kind: str) -> None:
    function = function_of(pixels, kind)
    (x,) = function.inputs
    values = np.random.default_rng(1).standard_normal(x.type.shape).astype(x.type.kind.dtype)
    wanted = evaluate(function, {"x": values})["y"]
    found = evaluate(widen_convolutions(function, target=SMALL_CORE), {"x": values})["y"]
    np.testing.assert_array_equal(found, wanted)
