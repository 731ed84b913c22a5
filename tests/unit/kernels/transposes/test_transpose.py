"""Transposes of every rank, permutation, kind and width against NumPy."""

import dataclasses

import numpy as np
import pytest

from glow_nb.base.errors import UnsupportedError
from glow_nb.base.types import ElementKind, TensorType
from glow_nb.kernels.cpu_kernels import generate_kernel, planned
from glow_nb.kernels.target import LANE_COUNTS, Target
from glow_nb.kernels.transposes.plan import Blocks, Matrix
from glow_nb.llir.instructions.shape import TransposeInst
from glow_nb.llir.program import Buffer, Instruction, View
from tests.in_turn import each_with_one_width, in_turn, left_out
from tests.targets import SMALL_CORE
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
    ((1024, 49), (1, 0)),
    ((1000, 300, 2), (1, 0, 2)),
    ((515, 1024), (1, 0)),
    ((512, 528), (1, 0)),  # rows of both conflict
    ((1024, 1030), (1, 0)),
    ((2, 1024, 7, 7), (0, 2, 3, 1)),
    ((2, 1001), (1, 0)),  # two rows become pairs
    ((3, 1001, 2), (0, 2, 1)),  # and back
    ((20, 30, 2), (1, 0, 2)),  # pairs that stay together
    ((40, 50, 3), (1, 0, 2)),  # runs that stay together
    ((30, 256, 8), (1, 0, 2)),
    ((128, 128, 5), (1, 0, 2)),  # the same through scratch
    ((4, 501), (1, 0)),
    ((501, 6), (1, 0)),
    ((1, 7, 1), (2, 0, 1)),
    ((0, 3), (1, 0)),
    ((), ()),
]
OWN_ORDERS = [CASES[number] for number in (3, 17, 21, 23, 25)]
"""Cases that no even number is like; the default run has these and those of even numbers."""


@pytest.mark.jit
@pytest.mark.parametrize(
    ("case", "lanes"), each_with_one_width(CASES, slow=left_out(2, CASES, always=OWN_ORDERS))
)
def test_transpose_moves_every_element(
    case: tuple[tuple[int, ...], tuple[int, ...]], lanes: int
) -> None:
    check(_transpose(*case), Target.host(lanes), ulp=0)


PERMUTATIONS = [
    ((19, 35), (1, 0)),
    ((3, 35), (1, 0)),
    ((2, 35), (1, 0)),
    ((160, 1024), (1, 0)),
    ((9, 7, 2), (1, 0, 2)),
    ((9, 7, 3), (1, 0, 2)),
]


@pytest.mark.jit
@pytest.mark.parametrize(
    ("kind", "permutation"),
    in_turn(ElementKind, PERMUTATIONS, slow=left_out(4, ElementKind, first=3, always=[FLOAT32])),
)
def test_every_kind_is_moved(
    kind: ElementKind, permutation: tuple[tuple[int, ...], tuple[int, ...]]
) -> None:
    check(_transpose(*permutation, kind), Target.host(), ulp=0)


@pytest.mark.parametrize(
    ("kind", "shape", "is_staged"),
    [
        (FLOAT32, (64, 3136), False),
        (FLOAT32, (49, 2048), False),
        (FLOAT32, (2048, 49), True),
        (ElementKind.INT8, (4096, 64), True),
    ],
)
def test_blocks_are_staged_where_rows_of_the_result_share_places_of_the_cache(
    kind: ElementKind, shape: tuple[int, int], is_staged: bool
) -> None:
    target = dataclasses.replace(Target.host(8), l2_bytes=1 << 20, l3_bytes=1 << 25)
    matrix = Matrix(kind, shape[1], shape[0], 1, shape[0], shape[1], (), (), ())
    blocks = Blocks.of(matrix, target)
    assert blocks.is_staged is is_staged
    assert (blocks.scratch_bytes > 0) is is_staged
    assert blocks.scratch_bytes <= 1 << 17


def test_a_plan_says_how_a_transpose_is_cut() -> None:
    made = planned(_transpose((64, 3136), (1, 0)), SMALL_CORE)
    assert made.plan is not None
    assert str(made.plan).startswith("transpose {rows = ")
    changed = dataclasses.replace(made, plan=made.plan.updated(rows=8))
    assert generate_kernel(changed, SMALL_CORE).text != generate_kernel(made, SMALL_CORE).text
    for wrong in ({"lanes": 3, "piece": 2}, {"piece": 2, "rows": 1}):
        changed = dataclasses.replace(made, plan=made.plan.updated(**wrong))
        with pytest.raises(UnsupportedError, match="must be powers of two within a block"):
            generate_kernel(changed, SMALL_CORE)
    copied = _transpose((4, 1, 8), (1, 0, 2))  # moves nothing past each other
    assert planned(copied, SMALL_CORE) is copied


SMALL = dataclasses.replace(Target.host(), l2_bytes=1 << 10, l3_bytes=1 << 12)
"""A machine of which the caches hold next to nothing."""

LARGE = [
    ((397, 57), (1, 0)),  # rows begin anywhere in a line
    ((512, 128), (1, 0)),  # all begin one
    ((320, 40), (1, 0)),
    ((3, 400, 30), (0, 2, 1)),
    ((200, 100, 3), (1, 0, 2)),
    ((300, 90, 5), (1, 0, 2)),
    ((40, 50, 70), (1, 0, 2)),
]


@pytest.mark.jit
@pytest.mark.parametrize(
    ("case", "kind"),
    in_turn(LARGE, [ElementKind.INT8, ElementKind.BFLOAT16, FLOAT32], slow=left_out(2, LARGE)),
    ids=str,
)
def test_results_that_no_cache_holds(
    case: tuple[tuple[int, ...], tuple[int, ...]], kind: ElementKind
) -> None:
    check(_transpose(*case, kind), SMALL, ulp=0)


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
    target = TARGETS[int(rng.integers(3))]
    if rng.random() < 0.3:
        target = dataclasses.replace(target, l2_bytes=SMALL.l2_bytes, l3_bytes=SMALL.l3_bytes)
    check(_transpose(shape, permutation, kind), target, ulp=0)
