"""The k extremes of each line against their operator: order, ties and NaN."""

import numpy as np
import pytest

from glow_nb.base.types import ElementKind, TensorType
from glow_nb.hlir.ops.families import NUMBERS
from glow_nb.kernels.target import Target
from glow_nb.llir.instructions.reduction import TopKInst
from tests.in_turn import one_in
from tests.unit.kernels.cases import check, instruction_of, random_array

NUMBER_KINDS = [kind for kind in ElementKind if kind in NUMBERS]


def _check(
    shape: tuple[int, ...],
    k: int,
    axis: int,
    kind: ElementKind = ElementKind.FLOAT32,
    *,
    largest: bool = True,
) -> None:
    type = TensorType(kind, shape)
    instruction = instruction_of(TopKInst, [type], k=k, axis=axis, largest=largest)
    rng = np.random.default_rng(k)
    repeating = rng.integers(0, 5, shape).astype(kind.dtype)
    for numbers in (random_array(rng, type), repeating, np.sort(repeating, axis=axis)):
        check(instruction, Target.host(), operands=[numbers], ulp=0)


@pytest.mark.jit
@pytest.mark.parametrize("largest", [True, False], ids=["largest", "smallest"])
@pytest.mark.parametrize(
    ("shape", "k", "axis"),
    [
        ((5, 40), 7, 1),
        ((3, 20, 6), 20, 1),
        ((30, 2), 1, 0),
        ((4, 3), 0, 1),
        ((0, 3), 2, 1),
        ((1,), 1, 0),
    ],
    ids=str,
)
def test_extremes_in_order(shape: tuple[int, ...], k: int, axis: int, largest: bool) -> None:
    _check(shape, k, axis, largest=largest)


@pytest.mark.jit
@pytest.mark.parametrize("kind", one_in(4, NUMBER_KINDS, first=1, always=[ElementKind.FLOAT32]))
def test_every_kind(kind: ElementKind) -> None:
    _check((4, 19), 5, 1, kind)
    _check((19, 4), 5, 0, kind, largest=False)
