"""Kernels that transform filters against the operator, which computes in float64."""

from __future__ import annotations

import pytest

from glow_nb.base.types import ElementKind, TensorType
from glow_nb.kernels.operators.winograd_instructions import WinogradFilterInst
from glow_nb.kernels.target import Target
from tests.in_turn import each_with_one_width
from tests.unit.kernels.cases import check, instruction_of

# group, panels, taps, channels, block; tile, and stride
CASES = {
    "3x3": ((1, 3, 3, 3, 20, 16), (4, 4), (1, 1)),
    "more than a run": ((1, 1, 3, 3, 70, 48), (2, 2), (1, 1)),
    "mixed": ((2, 2, 3, 3, 5, 16), (2, 4), (1, 1)),
    "no whole vectors": ((1, 2, 3, 3, 5, 3), (2, 2), (1, 1)),
    "5x5": ((1, 1, 5, 5, 3, 16), (2, 4), (1, 1)),
    "rank 1": ((1, 2, 3, 7, 16), (4,), (1,)),
    "volume": ((1, 1, 3, 3, 3, 4, 16), (1, 4, 2), (1, 1, 1)),
    "stride": ((1, 2, 3, 5, 7, 16), (4, 2), (2, 2)),
    "nothing": ((1, 0, 3, 3, 4, 16), (2, 2), (1, 1)),
}
SHOWN = ("rank 1", "stride", "nothing")
"""Filters for the default run; tests of convolutions transform others."""


@pytest.mark.jit
@pytest.mark.parametrize(("name", "lanes"), each_with_one_width(CASES, only=SHOWN))
def test_transform_is_that_of_the_operator(name: str, lanes: int) -> None:
    shape, tile, stride = CASES[name]
    type = TensorType(ElementKind.FLOAT32, shape)
    instruction = instruction_of(WinogradFilterInst, [type], tile=tile, stride=stride)
    check(instruction, Target.host(lanes), specials=False, ulp=16, absolute=1e-5)


@pytest.mark.jit
def test_doubles_are_transformed_as_doubles() -> None:
    type = TensorType(ElementKind.FLOAT64, (1, 2, 3, 3, 5, 8))
    instruction = instruction_of(WinogradFilterInst, [type], tile=(4, 4), stride=(1, 1))
    check(instruction, Target.host(), specials=False, ulp=16, absolute=1e-13)
