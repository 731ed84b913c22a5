"""Local response normalization against its operator."""

import numpy as np
import pytest

from glow_nb.base.types import ElementKind, TensorType
from glow_nb.hlir.ops.families import FLOATS
from glow_nb.kernels.target import LANE_COUNTS, Target
from glow_nb.llir.instructions.normalization import LocalResponseNormalizationInst
from tests.in_turn import in_turn, marked
from tests.unit.kernels.cases import check, instruction_of

TARGETS = [Target.host(lanes) for lanes in LANE_COUNTS]


def _check(
    shape: tuple[int, ...],
    target: Target,
    kind: ElementKind = ElementKind.FLOAT32,
    *,
    size: int = 5,
    alpha: float = 0.1,
    beta: float = 0.75,
    bias: float = 1.0,
) -> None:
    attributes = {"size": size, "alpha": alpha, "beta": beta, "bias": bias}
    instruction = instruction_of(
        LocalResponseNormalizationInst, [TensorType(kind, shape)], **attributes
    )
    check(instruction, target, ulp=8)


@pytest.mark.jit
@pytest.mark.parametrize(
    ("channels", "target"),
    in_turn([1, 3, 16, 37, 96], TARGETS),
    ids=lambda given: f"{given.lanes}-lanes" if isinstance(given, Target) else None,
)
def test_channels_fill_vectors_or_not(channels: int, target: Target) -> None:
    _check((2, 3, 5, channels), target)


@pytest.mark.jit
@pytest.mark.parametrize(
    "beta", marked([0.25, 0.5, 0.6, 0.75, 1.0, 2.0, -0.5], slow=[0.25, 0.5, 2.0])
)
def test_every_exponent(beta: float) -> None:
    _check((7, 21), Target.host(), beta=beta, bias=2.0)


@pytest.mark.jit
@pytest.mark.parametrize("size", [1, 2, 4, 20, 101])
def test_every_number_of_neighbours(size: int) -> None:
    _check((7, 21), Target.host(), size=size)


@pytest.mark.jit
@pytest.mark.parametrize("kind", [kind for kind in ElementKind if kind in FLOATS])
def test_every_kind(kind: ElementKind) -> None:
    _check((4, 19), Target.host(), kind)


@pytest.mark.jit
@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (9,)], ids=str)
def test_sizes_of_nothing(shape: tuple[int, ...]) -> None:
    _check(shape, Target.host())


@pytest.mark.jit
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(30))
def test_random_normalizations(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape = tuple(int(n) for n in rng.choice([1, 2, 3, 5, 8, 17, 40], int(rng.integers(1, 4))))
    size = int(rng.integers(1, 12))
    beta = float(rng.choice([0.5, 0.75, 1.0, 0.3]))
    _check(shape, TARGETS[seed % 3], size=size, beta=beta, alpha=float(rng.random()))
