"""Determinants against NumPy's: pivots, singular matrices, NaN, and many matrices for threads."""

import numpy as np
import pytest

from glow_nb.base.types import Array, ElementKind, TensorType
from glow_nb.kernels.target import Target
from glow_nb.llir.instructions.matrix import DeterminantInst
from tests.in_turn import in_turn
from tests.unit.kernels.cases import check, instruction_of

FLOATS = [kind for kind in ElementKind if kind.is_float]


def _check(matrices: Array) -> None:
    instruction = instruction_of(DeterminantInst, [TensorType.of(matrices)])
    check(instruction, Target.host(), operands=[matrices], ulp=8, absolute=1e-6)


@pytest.mark.jit
@pytest.mark.parametrize(
    ("kind", "shape"),
    in_turn(FLOATS, [(3, 3), (7, 5, 5), (2, 3, 9, 9), (40, 1, 1), (2, 0, 0), (0, 3, 3)], most=1),
)
def test_determinants_are_those_of_numpy(kind: ElementKind, shape: tuple[int, ...]) -> None:
    """The default run has each kind with another shape."""
    numbers = np.random.default_rng(len(shape)).normal(size=shape)
    _check(np.asarray(numbers.astype(kind.dtype)))


@pytest.mark.jit
def test_rows_are_exchanged_where_a_pivot_is_nothing() -> None:
    _check(
        np.array([[[0, 1, 2], [3, 0, 1], [0, 0, 5]], [[0, 0, 1], [0, 2, 0], [3, 0, 0]]], np.float32)
    )


@pytest.mark.jit
def test_singular_matrices_have_none() -> None:
    _check(np.array([[[1, 2], [2, 4]], [[0, 0], [0, 0]], [[0, 3], [0, 5]]], np.float64))


@pytest.mark.jit
@pytest.mark.parametrize("place", [(0, 0), (1, 0), (0, 1), (1, 1)])
def test_nan_makes_the_determinant_nan(place: tuple[int, int]) -> None:
    matrix = np.array([[0.0, 2.0], [3.0, 4.0]])
    matrix[place] = np.nan
    _check(matrix[None])
