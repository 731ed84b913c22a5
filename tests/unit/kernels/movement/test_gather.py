"""Gathers against their operators: indices of both kinds, negative ones and wrong ones."""

from typing import Any

import numpy as np
import pytest

from glow_nb.base.errors import UnsupportedError
from glow_nb.base.types import ElementKind, TensorType
from glow_nb.kernels.cpu_kernels import generate_kernel
from glow_nb.kernels.target import Target
from glow_nb.llir.instructions.gather import GatherElementsInst, GatherInst, GatherNDInst
from glow_nb.llir.program import Buffer, Instruction, View
from tests.in_turn import one_in
from tests.unit.kernels.cases import check, instruction_of, random_array, random_indices

FLOAT32, INT32, INT64 = ElementKind.FLOAT32, ElementKind.INT32, ElementKind.INT64
Shape = tuple[int, ...]


def _check(
    instruction_class: type[Instruction],
    shape: Shape,
    indices: Shape,
    kind: ElementKind = FLOAT32,
    index_kind: ElementKind = INT64,
    lanes: int | None = None,
    **attributes: Any,
) -> None:
    """Compare on indices from all of an axis, from the end, and some that lie outside."""
    rng = np.random.default_rng(len(shape) + sum(indices))
    types = [TensorType(kind, shape), TensorType(index_kind, indices)]
    places = random_indices(rng, shape, types[1])
    instruction = instruction_of(instruction_class, types, **attributes)
    check(instruction, Target.host(lanes), operands=[random_array(rng, types[0]), places], ulp=0)


@pytest.mark.jit
@pytest.mark.parametrize(
    ("shape", "indices", "axis"),
    [
        ((10, 33), (4, 5), 0),
        ((3, 7, 5), (6,), 1),
        ((70, 9), (11,), 1),  # single elements
        ((4, 9), (), 1),  # one index, no axis left
        ((1, 9), (3,), 0),  # an axis of one
        ((2, 3, 5000), (3,), 1),  # rows that are cut
        ((5, 0), (3,), 0),
        ((0, 3), (0,), 0),
    ],
    ids=str,
)
def test_gather_takes_slices(shape: Shape, indices: Shape, axis: int) -> None:
    _check(GatherInst, shape, indices, axis=axis)


@pytest.mark.jit
@pytest.mark.parametrize(
    ("shape", "indices", "axis"),
    [
        ((6, 5, 4), (3, 8, 4), 1),
        ((6, 5), (6, 9), 1),
        ((6, 5), (11, 2), 0),
        ((1, 5), (1, 70), 1),
        ((7,), (3,), 0),
        ((7, 3), (0, 3), 0),
    ],
    ids=str,
)
def test_gather_elements_takes_one_for_each_index(shape: Shape, indices: Shape, axis: int) -> None:
    _check(GatherElementsInst, shape, indices, axis=axis)


@pytest.mark.jit
@pytest.mark.parametrize(
    ("lanes", "kind", "index_kind"),
    [
        (4, ElementKind.FLOAT32, INT64),
        (8, ElementKind.FLOAT64, INT32),
        (16, ElementKind.UINT8, INT64),
    ],
    ids=str,
)
def test_single_elements_are_taken_by_vectors(
    lanes: int, kind: ElementKind, index_kind: ElementKind
) -> None:
    kinds = (kind, index_kind, lanes)
    _check(GatherElementsInst, (5, 37), (5, 19), *kinds, axis=1)
    _check(GatherElementsInst, (5, 37), (9, 21), *kinds, axis=0)
    _check(GatherElementsInst, (5, 37, 3), (5, 21, 1), *kinds, axis=0)  # neighbours lie apart
    _check(GatherInst, (3, 40), (18,), *kinds, axis=1)
    _check(GatherInst, (33, 4), (), *kinds, axis=1)
    _check(GatherNDInst, (3, 40), (3, 17, 1), *kinds, batch_dims=1)


@pytest.mark.jit
@pytest.mark.parametrize(
    ("shape", "indices", "batch_dims"),
    [
        ((4, 5, 6), (7, 2), 0),
        ((4, 5, 6), (7, 3), 0),  # single elements
        ((3, 4, 5, 6), (3, 2, 2, 1), 1),
        ((3, 4, 5), (3, 4, 1), 2),
        ((4, 5000), (3, 1), 0),
        ((4, 0, 3), (2, 1), 0),
    ],
    ids=str,
)
def test_gather_nd_takes_slices_at_coordinates(
    shape: Shape, indices: Shape, batch_dims: int
) -> None:
    _check(GatherNDInst, shape, indices, batch_dims=batch_dims)


@pytest.mark.jit
@pytest.mark.parametrize("kind", one_in(4, ElementKind, first=3, always=[ElementKind.FLOAT32]))
def test_every_kind_is_gathered(kind: ElementKind) -> None:
    _check(GatherInst, (6, 7), (5,), kind, INT32, axis=0)


@pytest.mark.jit
@pytest.mark.parametrize("instruction_class", [GatherElementsInst, GatherNDInst])
def test_indices_may_be_narrow(instruction_class: type[Instruction]) -> None:
    attributes = {"axis": 0} if instruction_class is GatherElementsInst else {"batch_dims": 0}
    _check(instruction_class, (6, 2), (5, 2), ElementKind.BOOL, INT32, **attributes)


@pytest.mark.jit
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(60))
def test_random_gathers(seed: int) -> None:
    rng = np.random.default_rng(seed)

    def sizes(count: int, least: int = 1) -> Shape:
        return tuple(int(n) for n in rng.integers(least, 8, count))

    shape = sizes(int(rng.integers(1, 5)))
    axis = int(rng.integers(len(shape)))
    kind = list(ElementKind)[int(rng.integers(len(ElementKind)))]
    index_kind = INT32 if seed % 2 else INT64
    _check(GatherInst, shape, sizes(int(rng.integers(0, 3)), 0), kind, index_kind, axis=axis)
    wanted = tuple(int(rng.integers(0, n + 1)) for n in shape)
    wanted = (*wanted[:axis], int(rng.integers(0, 30)), *wanted[axis + 1 :])
    _check(GatherElementsInst, shape, wanted, kind, index_kind, axis=axis)
    depth = int(rng.integers(1, len(shape) - axis + 1))
    points = (*shape[:axis], *sizes(int(rng.integers(0, 3))), depth)
    _check(GatherNDInst, shape, points, kind, index_kind, batch_dims=axis)


def test_operands_with_gaps_are_refused() -> None:
    whole = Buffer("whole", TensorType(FLOAT32, (6, 8)))
    window = View("window", TensorType(FLOAT32, (6, 4)), base=whole, steps=(8, 1))
    indices = Buffer("indices", TensorType(INT64, (3,)))
    dest = Buffer("dest", TensorType(FLOAT32, (3, 4)))
    with pytest.raises(UnsupportedError, match="cannot step over the gaps in %window"):
        generate_kernel(GatherInst(dest, window, indices, axis=0), Target.host())
