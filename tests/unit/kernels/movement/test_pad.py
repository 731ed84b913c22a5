"""Pads of every mode, kind and width against their operator."""

from typing import Any

import numpy as np
import pytest

from glow_nb.base.errors import VerifyError
from glow_nb.base.types import ElementKind, TensorType
from glow_nb.kernels.cpu_kernels import generate_kernel
from glow_nb.kernels.target import LANE_COUNTS, Target
from glow_nb.llir.instructions.shape import PadInst
from tests.in_turn import in_turn, left_out
from tests.unit.kernels.cases import COMPUTED, check, instruction_of

FLOAT32 = ElementKind.FLOAT32
TARGETS = [Target.host(lanes) for lanes in LANE_COUNTS]
MODES = ("constant", "reflect", "edge", "wrap")
Shape = tuple[int, ...]


def _check(
    shape: Shape, pads: Shape, target: Target, kind: ElementKind = FLOAT32, **attributes: Any
) -> None:
    pad = instruction_of(PadInst, [TensorType(kind, shape)], pads=pads, **attributes)
    check(pad, target, ulp=0)


CASES = [
    ((2, 5, 6, 3), (0, 1, 2, 0, 0, 3, 1, 0)),  # a border around channels-last images
    ((2, 3, 5, 7), (0, 0, 1, 1, 0, 0, 2, 0)),
    ((4, 6), (-1, 2, 2, -3)),
    ((3, 5, 4), (0, 0, 2, 0, 0, 1)),
    ((5, 30), (1, 0, 2, 0)),
    ((7,), (2, 3)),
    ((4, 4), (-2, -1, -1, -2)),  # only cut
    ((1, 1, 9), (0, 0, 4, 0, 0, 0)),
    ((5000,), (4, 4500)),  # a row that is cut in pieces
    ((9000,), (-40, -3)),
    ((3, 3000), (1, 0, 0, 0)),
]


@pytest.mark.jit
@pytest.mark.parametrize(("case", "mode"), in_turn(CASES, MODES), ids=str)
def test_pad_gives_what_its_operator_gives(case: tuple[Shape, Shape], mode: str) -> None:
    _check(*case, Target.host(), mode=mode, value=2.5)


@pytest.mark.jit
@pytest.mark.parametrize(
    ("kind", "value"),
    in_turn(COMPUTED, [0.0, -3.7], slow=left_out(4, COMPUTED, always=[ElementKind.FLOAT32])),
)
def test_every_kind_is_padded(kind: ElementKind, value: float) -> None:
    if value < 0 and not kind.is_signed:
        value = -value
    _check((3, 7), (1, 20, 0, 11), Target.host(), kind, value=value)


@pytest.mark.jit
@pytest.mark.parametrize("value", [float("nan"), float("-inf"), -0.0])
def test_unusual_constants(value: float) -> None:
    _check((3, 7), (1, 20, 0, 11), Target.host(), value=value)


@pytest.mark.jit
@pytest.mark.parametrize("target", TARGETS, ids=lambda target: f"{target.lanes}-lanes")
def test_every_width(target: Target) -> None:
    _check((3, 7), (1, 20, 0, 11), target, value=1.5)


@pytest.mark.jit
@pytest.mark.parametrize(
    ("shape", "pads"),
    [
        ((0, 3), (2, 1, 0, 0)),  # nothing but the constant
        ((3, 0), (1, 4, 0, 5)),
        ((3, 2), (0, -2, 0, 0)),  # nothing at all
        ((), ()),
        ((1, 1), (0, 0, 0, 0)),
    ],
    ids=str,
)
def test_sizes_of_nothing(shape: Shape, pads: Shape) -> None:
    _check(shape, pads, Target.host(), value=1.5)


@pytest.mark.jit
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(80))
def test_random_pads(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rank = int(rng.integers(1, 5))
    shape = tuple(int(n) for n in rng.integers(0, 9, rank))
    pads = tuple(int(n) for n in rng.integers(-4, 7, 2 * rank) * (rng.random(2 * rank) < 0.6))
    kind = COMPUTED[int(rng.integers(len(COMPUTED)))]
    try:
        _check(shape, pads, TARGETS[seed % 3], kind, mode=MODES[seed % 4], value=1.0)
    except VerifyError:
        pytest.skip("no such pad")


def test_channels_last_images_are_copied_line_by_line() -> None:
    pad = instruction_of(
        PadInst, [TensorType(FLOAT32, (1, 4, 5, 3))], pads=(0, 1, 1, 0, 0, 1, 1, 0)
    )
    assert generate_kernel(pad, Target.host(4)).text == (
        "def kernel(dest, input, scratch, thread, threads):\n"
        "    for i0 in range(thread * 6 // threads, (thread + 1) * 6 // threads):\n"
        "        row = i0 * 21\n"
        "        if 1 <= i0 < 5:\n"
        "            start = i0 * 15 + -18\n"
        "            clear(dest, row, max(row + 3 - (row), 0))\n"
        "            copy(dest, row + 3, input, start + 3, 15)\n"
        "            clear(dest, row + 18, max(row + 21 - (row + 18), 0))\n"
        "        else:\n"
        "            clear(dest, row, max(row + 21 - (row), 0))\n"
    )
