"""Tiles of every kind against their operator."""

import numpy as np
import pytest

from glow_nb.base.types import ElementKind, TensorType
from glow_nb.kernels.target import LANE_COUNTS, Target
from glow_nb.llir.instructions.shape import TileInst
from tests.in_turn import one_in
from tests.unit.kernels.cases import check, instruction_of

FLOAT32 = ElementKind.FLOAT32
TARGETS = [Target.host(lanes) for lanes in LANE_COUNTS]
Shape = tuple[int, ...]


def _check(shape: Shape, repeats: Shape, target: Target, kind: ElementKind = FLOAT32) -> None:
    check(instruction_of(TileInst, [TensorType(kind, shape)], repeats=repeats), target, ulp=0)


@pytest.mark.jit
@pytest.mark.parametrize(
    ("shape", "repeats"),
    [
        ((2, 3, 9), (3, 1, 2)),
        ((3, 45), (1, 5)),
        ((4, 1), (2, 37)),
        ((5,), (70,)),
        ((2, 3), (1, 1)),
        ((2, 3), (0, 4)),
        ((0, 3), (2, 2)),
        ((), ()),
    ],
    ids=str,
)
def test_tile_repeats_the_whole_tensor(shape: Shape, repeats: Shape) -> None:
    _check(shape, repeats, Target.host())


@pytest.mark.jit
@pytest.mark.parametrize("kind", one_in(4, ElementKind, first=1, always=[ElementKind.FLOAT32]))
def test_every_kind_is_repeated(kind: ElementKind) -> None:
    _check((3, 7), (2, 3), Target.host(), kind)


@pytest.mark.jit
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(30))
def test_random_tiles(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rank = int(rng.integers(1, 5))
    shape, repeats = (tuple(int(n) for n in rng.integers(0, 7, rank)) for _ in range(2))
    _check(shape, repeats, TARGETS[seed % 3])
