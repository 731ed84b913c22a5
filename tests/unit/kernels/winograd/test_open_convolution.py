"""Winograd convolutions of images whose sizes only the run knows, against their operators."""

from __future__ import annotations

from dataclasses import replace

import pytest

from glow_nb.kernels.winograd.nest import WinogradNest
from tests.in_turn import in_turn
from tests.targets import SMALL_CORE
from tests.unit.kernels.open_cases import Sizes, check_open, open_size
from tests.unit.kernels.winograd.nests import NESTS
from tests.unit.kernels.winograd.test_convolution import FLOAT32, convolution_of

SETS: list[Sizes] = [
    {"b": 1, "h": 7, "w": 7},
    {"b": 2, "h": 12, "w": 29},
    {"b": 3, "h": 16, "w": 16},
    {"b": 1, "h": 1, "w": 2},
]
NAMES = ("4x4", "mixed", "4x6", "groups", "5x5", "row", "column", "stride", "dilated")
QUICK = ("4x6", "dilated")
HINTS = ((1, 7, 9), (4, 56, 60))


def _open(name: str, hints: tuple[int, int, int]) -> WinogradNest:
    """Return the nest of *name* for images of any size that its windows fit."""
    shape, tile = NESTS[name]
    pads = zip(shape.reach, shape.begins, shape.ends, strict=True)
    lows = (1, *(max(1, reach - begin - end) for reach, begin, end in pads))
    batch, *image = (open_size(*size) for size in zip("bhw", hints, lows, strict=True))
    return WinogradNest(replace(shape, batch=batch, input=tuple(image)), tile, FLOAT32, 16)


@pytest.mark.jit
@pytest.mark.parametrize(("name", "hints"), in_turn(NAMES, HINTS, only=QUICK))
def test_one_kernel_convolves_images_of_all_sizes(name: str, hints: tuple[int, int, int]) -> None:
    nest = _open(name, hints)
    reach = max(nest.shape.reach)
    sets = SETS if nest.shape.is_padded else [s for s in SETS if min(s["h"], s["w"]) >= reach]
    check_open(convolution_of(nest), sets, SMALL_CORE, threads=(1, 3), absolute=0.05)
