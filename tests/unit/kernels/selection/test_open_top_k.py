"""The largest elements of lines of which the length, or how many there are, is open."""

import pytest

from glow_nb.base.types import ElementKind, TensorType
from glow_nb.kernels.target import Target
from glow_nb.llir.instructions.reduction import TopKInst
from tests.in_turn import marked, marked_rows
from tests.unit.kernels.cases import instruction_of
from tests.unit.kernels.open_cases import check_open, open_size

N, M = open_size("n", 32), open_size("m", 7)
SETS = [{"n": n, "m": m} for n, m in ((1, 1), (32, 7), (5, 16), (113, 33))]


@pytest.mark.jit
@pytest.mark.parametrize(("shape", "axis"), [((N + 5, M), 0), ((N, M + 5), 1), ((N, M + 5, 3), 1)])
def test_open_lines(shape: tuple[int, ...], axis: int) -> None:
    """Fewer lines side by side than in the example are no more than there are."""
    types = [TensorType(ElementKind.FLOAT32, shape)]
    top = instruction_of(TopKInst, types, k=5, axis=axis, largest=True)
    check_open(top, SETS, Target.host(8), specials=True)


L = open_size("l", 3000)
LINES: list[tuple[tuple[int, ...], int, int]] = [
    ((3, L + 200), 1, 200),
    ((N, L + 500), 1, 500),
    ((L + 230, 3), 0, 230),
    ((N, L), 1, L),
    ((L, M), 0, L // 2 + 1),
    ((N, 4096), 1, 2000),
]


@pytest.mark.jit
@pytest.mark.parametrize(("shape", "axis", "k"), marked_rows(LINES, only=LINES[1:2]))
@pytest.mark.parametrize("largest", marked([True, False], only=[True]))
def test_lines_that_are_sorted(shape: tuple[int, ...], axis: int, k: int, largest: bool) -> None:
    """Candidates may be all of a line, or fill their room many times."""
    types = [TensorType(ElementKind.FLOAT32, shape)]
    top = instruction_of(TopKInst, types, axis=axis, k=k, largest=largest)
    sets = [
        {"n": n, "m": m, "l": length}
        for n, m, length in ((1, 2, 1), (3, 1, 2), (2, 1, 2600), (1, 3, 1100), (1, 1, 1040))
    ]
    check_open(top, sets, Target.host(8), specials=True)


Z = open_size("z", 9, low=0)


@pytest.mark.jit
@pytest.mark.parametrize("shape", [(Z + 20, 3), (3, Z + 20)])
def test_none_of_a_line(shape: tuple[int, ...]) -> None:
    """Nothing is written for the last one of none, with which elements would be compared."""
    types = [TensorType(ElementKind.FLOAT32, shape)]
    top = instruction_of(TopKInst, types, k=Z, axis=shape.index(Z + 20), largest=True)
    check_open(top, [{"z": 0}, {"z": 2}], Target.host(8))


@pytest.mark.jit
def test_a_number_that_is_a_quotient() -> None:
    """The last one so far has a whole number, with which elements that enter are compared."""
    types = [TensorType(ElementKind.FLOAT32, (3, M + 100))]
    top = instruction_of(TopKInst, types, k=2 * ((M + 1) // 2), axis=1, largest=True)
    check_open(top, [{"m": 8}, {"m": 7}], Target.host(8))
