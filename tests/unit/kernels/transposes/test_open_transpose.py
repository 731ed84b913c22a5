"""Transposes of open sizes: blocks that are what is left, tiles that a block has no room for."""

from dataclasses import replace

import pytest

from glow_nb.base.plan import Plan
from glow_nb.base.types import ElementKind, TensorType
from glow_nb.kernels.target import Target
from glow_nb.llir.instructions.shape import TransposeInst
from glow_nb.llir.program import Instruction
from tests.in_turn import marked
from tests.unit.kernels.cases import instruction_of
from tests.unit.kernels.open_cases import check_open, open_size

ROWS, COLUMNS = open_size("rows", 40), open_size("columns", 37)
SETS = [
    {"rows": rows, "columns": columns}
    for rows, columns in ((1, 1), (40, 37), (3, 5), (2, 33), (33, 2), (4, 8), (97, 131))
]
KINDS = [ElementKind.UINT8, ElementKind.FLOAT16, ElementKind.FLOAT64]


def _transpose(
    shape: tuple[int, ...], permutation: tuple[int, ...], kind: ElementKind = ElementKind.FLOAT32
) -> Instruction:
    return instruction_of(TransposeInst, [TensorType(kind, shape)], permutation=permutation)


@pytest.mark.jit
@pytest.mark.parametrize(
    ("shape", "permutation"),
    [
        ((ROWS, COLUMNS), (1, 0)),
        ((ROWS, 24, COLUMNS), (0, 2, 1)),
        ((ROWS, COLUMNS, 3, 8), (2, 0, 3, 1)),
        ((ROWS, COLUMNS, 2), (1, 0, 2)),  # two that stay together are moved as one
        ((ROWS, 3, COLUMNS), (1, 0, 2)),  # rows of an open length
    ],
)
def test_open_rows_and_columns(shape: tuple[int, ...], permutation: tuple[int, ...]) -> None:
    check_open(_transpose(shape, permutation), SETS, Target.host())


@pytest.mark.jit
@pytest.mark.parametrize("kind", marked(KINDS, [ElementKind.FLOAT16]))
def test_other_kinds(kind: ElementKind) -> None:
    check_open(_transpose((ROWS, COLUMNS), (1, 0), kind), SETS, Target.host(4))


@pytest.mark.jit
@pytest.mark.parametrize("permutation", [(2, 1, 0, 3), (0, 3, 2, 1)])
def test_the_example_may_have_fewer_loops(permutation: tuple[int, ...]) -> None:
    """A size of 1 lets two others be neighbours, which are no neighbours for other sizes."""
    shape = (open_size("one", 1), COLUMNS, open_size("two", 2), 3)
    sets = [{"one": n, "columns": m, "two": k} for n, m, k in ((1, 37, 2), (5, 9, 1), (2, 33, 7))]
    check_open(_transpose(shape, permutation), sets, Target.host(8))


@pytest.mark.jit
def test_blocks_by_way_of_scratch() -> None:
    plan = Plan.of("transpose", rows=16, columns=24, lanes=4, piece=4, staged=True)
    check_open(replace(_transpose((ROWS, COLUMNS), (1, 0)), plan=plan), SETS, Target.host(4))
