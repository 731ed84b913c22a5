"""Gradients of max pools against their operator, ties and NaN included."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from glow_nb.base.errors import UnsupportedError
from glow_nb.base.types import ElementKind, TensorType
from glow_nb.kernels.cpu_kernels import generate_kernel
from glow_nb.kernels.target import Target
from glow_nb.llir.instructions.pooling_gradients import MaxPoolGradientInst
from tests.in_turn import each_with_one_width
from tests.unit.kernels.cases import check, instruction_of

Shape = tuple[int, ...]
# shape, kernel, stride, pads, dilation
WINDOWS: list[tuple[Shape, Shape, Shape, Shape, Shape]] = [
    ((2, 9, 11, 37), (3, 3), (2, 2), (1, 1, 1, 1), (1, 1)),
    ((1, 8, 8, 3), (2, 2), (2, 2), (0, 0, 0, 0), (1, 1)),
    ((1, 5, 7, 70), (5, 5), (1, 1), (2, 2, 2, 2), (1, 1)),  # looped over
    ((2, 20, 9), (3,), (2,), (0, 1), (1,)),
    ((1, 4, 5, 6, 10), (2, 3, 2), (1, 2, 2), (1, 0, 1, 0, 2, 1), (1, 1, 1)),
    ((1, 12, 12, 8), (3, 2), (2, 1), (0, 1, 3, 1), (2, 3)),
    ((1, 3, 3, 5), (1, 1), (2, 2), (2, 2, 2, 2), (1, 1)),  # windows in padding alone
    ((1, 7, 7, 5), (2, 2), (3, 3), (1, 1, 1, 1), (1, 1)),  # lines without windows
    ((0, 4, 4, 5), (2, 2), (1, 1), (0, 0, 0, 0), (1, 1)),
]


def gradient_of(window: Any, kind: ElementKind = ElementKind.FLOAT32) -> MaxPoolGradientInst:
    """Return the instruction of a max pool over *window*."""
    (batch, *sizes, channels), kernel, stride, pads, dilation = window
    out = (
        (n + b + e - d * (k - 1) - 1) // s + 1
        for n, b, e, d, k, s in zip(
            sizes, pads, pads[len(sizes) :], dilation, kernel, stride, strict=False
        )
    )
    types = [TensorType(kind, window[0]), TensorType(kind, (batch, *out, channels))]
    made = instruction_of(
        MaxPoolGradientInst, types, kernel=kernel, stride=stride, pads=pads, dilation=dilation
    )
    assert isinstance(made, MaxPoolGradientInst)
    return made


@pytest.mark.jit
@pytest.mark.parametrize(
    ("window", "lanes"),
    each_with_one_width(WINDOWS, only=[WINDOWS[4], WINDOWS[6], WINDOWS[8]]),
)
def test_gradient_goes_to_the_largest_cell(window: Any, lanes: int) -> None:
    """The default run has a volume, windows in padding alone, and no samples."""
    instruction = gradient_of(window)
    random = np.random.default_rng(0)
    shape = instruction.input.type.shape
    x = random.integers(-2, 3, shape).astype(np.float32)  # many ties
    x[random.random(shape) < 0.1] = np.nan
    x[random.random(shape) < 0.1] = -np.inf
    g = random.integers(-9, 10, instruction.gradient.type.shape).astype(np.float32)
    check(instruction, Target.host(lanes), operands=[x, g], ulp=0)


@pytest.mark.jit
def test_doubles_stay_doubles() -> None:
    check(gradient_of(WINDOWS[0], ElementKind.FLOAT64), Target.host(), specials=False)


def test_sums_in_16_bits_are_refused() -> None:
    instruction = gradient_of(WINDOWS[0], ElementKind.FLOAT16)
    with pytest.raises(UnsupportedError, match="no kernel for float16; convert the operands"):
        generate_kernel(instruction, Target.host())
