"""The largest elements of lines of which the length, or how many there are, is open."""

import pytest

from glow_nb.base.types import ElementKind, TensorType
from glow_nb.kernels.target import Target
from glow_nb.llir.instructions.reduction import TopKInst
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
