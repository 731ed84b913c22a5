"""Transposes of every rank, permutation, kind and width against NumPy."""

import numpy as np
import pytest

from glow_nb.kernels.generate import generate_kernel
from glow_nb.kernels.target import LANE_COUNTS, Target
from glow_nb.llir.instructions.shape import TransposeInst
from glow_nb.llir.program import Buffer, Instruction, View
from glow_nb.types import ElementKind, TensorType
from tests.unit.kernels.cases import check, instruction_of
from tests.unit.kernels.running import RunningKernel, guarded

FLOAT32 = ElementKind.FLOAT32
SIZES = (1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 31, 33, 70, 128)
TARGETS = [Target.host(lanes) for lanes in LANE_COUNTS]


def _transpose(
    shape: tuple[int, ...], permutation: tuple[int, ...], kind: ElementKind = FLOAT32
) -> Instruction:
    return instruction_of(TransposeInst, [TensorType(kind, shape)], permutation=permutation)


CASES = [
    ((2, 20, 9, 11), (0, 2, 3, 1)),  # NCHW to NHWC
    ((2, 9, 11, 20), (0, 3, 1, 2)),  # and back
    ((2, 3, 30, 30), (0, 2, 3, 1)),  # few channels: rows of the result are short
    ((2, 30, 30, 3), (0, 3, 1, 2)),  # rows of the source are short
    ((3, 40, 3), (2, 0, 1)),
    ((3, 300, 5), (1, 2, 0)),
    ((4, 6, 8), (1, 0, 2)),  # the innermost dimension stays
    ((4, 5, 6, 7), (3, 2, 1, 0)),
    ((5, 3, 4), (2, 0, 1)),
    ((70, 130), (1, 0)),
    ((256, 64), (1, 0)),  # rows of 256 bytes
    ((9, 256), (1, 0)),  # rows of 1 KiB
    ((200, 512), (1, 0)),  # through scratch, in blocks that overlap at the ends
    ((257, 8, 128), (2, 1, 0)),
    ((2, 1024, 7, 7), (0, 2, 3, 1)),
    ((2, 1001), (1, 0)),  # two rows become pairs
    ((3, 1001, 2), (0, 2, 1)),  # and back
    ((20, 30, 2), (1, 0, 2)),  # pairs that stay together
    ((1, 7, 1), (2, 0, 1)),
    ((0, 3), (1, 0)),
    ((), ()),
]


@pytest.mark.jit
@pytest.mark.parametrize("target", TARGETS, ids=lambda target: f"{target.lanes}-lanes")
@pytest.mark.parametrize("case", CASES, ids=str)
def test_transpose_moves_every_element(
    case: tuple[tuple[int, ...], tuple[int, ...]], target: Target
) -> None:
    check(_transpose(*case), target, ulp=0)


@pytest.mark.jit
@pytest.mark.parametrize("kind", list(ElementKind))
def test_every_kind_is_moved(kind: ElementKind) -> None:
    check(_transpose((19, 35), (1, 0), kind), Target.host(), ulp=0)
    check(_transpose((3, 35), (1, 0), kind), Target.host(), ulp=0)
    check(_transpose((2, 35), (1, 0), kind), Target.host(), ulp=0)
    check(_transpose((160, 1024), (1, 0), kind), Target.host(), ulp=0)
    check(_transpose((9, 7, 2), (1, 0, 2), kind), Target.host(), ulp=0)


@pytest.mark.jit
def test_operands_may_be_views() -> None:
    target = Target.host()
    whole = Buffer("whole", TensorType(FLOAT32, (20, 50)))
    window = View("window", TensorType(FLOAT32, (20, 30)), base=whole, start=7, steps=(50, 1))
    dest = Buffer("dest", TensorType(FLOAT32, (30, 20)))
    kernel = RunningKernel(
        generate_kernel(TransposeInst(dest, window, permutation=(1, 0)), target), target
    )
    numbers = np.arange(1000, dtype=np.float32)
    result, _ = guarded((30, 20), FLOAT32)
    kernel(result, numbers[7:])
    np.testing.assert_array_equal(result, numbers.reshape(20, 50)[:, 7:37].T)


@pytest.mark.jit
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(200))
def test_random_transposes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rank = int(rng.integers(2, 6))
    limit = int(20000 ** (1 / rank))
    shape = tuple(int(n) for n in rng.choice([n for n in SIZES if n <= limit], rank))
    permutation = tuple(int(axis) for axis in rng.permutation(rank))
    kind = list(ElementKind)[int(rng.integers(len(ElementKind)))]
    check(_transpose(shape, permutation, kind), TARGETS[int(rng.integers(3))], ulp=0)
