"""Where a buffer lies whose part is a window of another one."""

from __future__ import annotations

import pytest

from glow_nb.base.types import ElementKind, TensorType
from glow_nb.llir.instructions.normalization import SoftmaxInst
from glow_nb.llir.program import Buffer, View
from glow_nb.llir.traits import KernelTraits, Traits
from glow_nb.llir.windows import can_be_strided, laid_around


def window(name: str, base: Buffer, shape: tuple[int, ...], offset: int) -> View:
    """Return a window of the matrix *base* from element *offset* on."""
    return View(name, TensorType(base.type.kind, shape), base, offset, base.strides)


def matrix(name: str, *shape: int) -> Buffer:
    return Buffer(name, TensorType(ElementKind.FLOAT32, shape))


def test_the_rest_lies_around_the_part() -> None:
    whole, wide = matrix("whole", 4, 10), matrix("wide", 4, 32)
    laid = laid_around(window("place", wide, (3, 8), 5), window("part", whole, (3, 8), 2))
    assert laid is not None
    assert (laid.type.shape, laid.offset, laid.strides) == ((4, 10), 3, (32, 1))


def test_nothing_lies_around_a_part_that_goes_on_behind_the_end_of_a_row() -> None:
    whole, wide = matrix("whole", 4, 10), matrix("wide", 4, 32)
    part = window("part", whole, (3, 8), 5)  # its columns 5 to 9, then 0 to 2 of the next row
    assert laid_around(window("place", wide, (3, 8), 9), part) is None


@pytest.mark.parametrize(
    ("steps", "any_rows", "can"),
    [
        ((24, 8, 1), False, True),
        ((40, 8, 1), False, False),
        ((40, 8, 1), True, True),
        ((0, 8, 1), True, True),
        ((40, 8, 2), True, False),
        ((40, -8, 1), True, False),
    ],
)
def test_rows_lie_at_equal_distances_or_anywhere(
    steps: tuple[int, ...], any_rows: bool, can: bool
) -> None:
    read, whole = matrix("read", 2, 3, 4), matrix("whole", 100)
    place = View("place", read.type, whole, 16, steps)
    softmax = SoftmaxInst(matrix("made", 2, 3, 4), read, axis=2)
    traits: Traits = {SoftmaxInst: KernelTraits(strided=("input",), any_rows=any_rows)}
    assert can_be_strided(softmax, read, place, traits) == can
