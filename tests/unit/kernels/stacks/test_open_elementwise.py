"""Loops over elements whose sizes are open: rows, what is repeated, and the vectorised row."""

import pytest

from glow_nb.base.types import ElementKind, TensorType
from glow_nb.hlir import ops
from glow_nb.kernels.cpu_kernels import generate_kernel
from glow_nb.kernels.target import Target
from glow_nb.llir.instructions.derived import instruction_for
from glow_nb.llir.instructions.shape import CopyInst
from glow_nb.llir.program import Activation, View
from tests.unit.kernels.cases import instruction_of
from tests.unit.kernels.open_cases import check_open, open_size
from tests.unit.kernels.plain_python import run_text

AddInst = instruction_for(ops.Add)
ExpInst = instruction_for(ops.Exp)
FLOAT32 = ElementKind.FLOAT32
ROWS, LENGTH = open_size("rows", 5), open_size("length", 37)
SETS = [
    {"rows": rows, "length": length}
    for rows, length in ((1, 1), (5, 37), (3, 64), (70, 31), (2, 1009))
]
"""Lengths below, at and above vectors of all widths."""

SHAPES = [
    ((ROWS, LENGTH), (ROWS, LENGTH)),  # one long row
    ((ROWS, 3, LENGTH), (ROWS, 1, LENGTH)),
    ((ROWS, 3, LENGTH), (ROWS, 3, 1)),
    ((LENGTH, ROWS, 2, 5), (LENGTH, 1, 2, 1)),  # three loops, of which two are open
    ((ROWS, LENGTH, 48), (1, 1, 48)),
]


@pytest.mark.jit
@pytest.mark.parametrize(("shape", "other"), SHAPES)
def test_open_rows_and_lengths(shape: tuple[int, ...], other: tuple[int, ...]) -> None:
    add = instruction_of(AddInst, [TensorType(FLOAT32, shape), TensorType(FLOAT32, other)])
    check_open(add, SETS, Target.host())


@pytest.mark.jit
@pytest.mark.parametrize("kind", [ElementKind.FLOAT16, ElementKind.INT8, ElementKind.FLOAT64])
def test_open_lengths_of_other_kinds(kind: ElementKind) -> None:
    types = [TensorType(kind, (ROWS, 2, LENGTH)), TensorType(kind, (ROWS, 1, LENGTH))]
    check_open(instruction_of(AddInst, types), SETS, Target.host(4))


@pytest.mark.parametrize("rows", [(1, 64), (64, 4096)])
@pytest.mark.parametrize("threads", [1, 3, 5])
def test_every_element_is_written_once(rows: tuple[int, int], threads: int) -> None:
    """Whether rows are shared, or parts of them, or both."""
    sizes = {"rows": open_size("rows", rows[0], *rows), "length": open_size("length", 40)}
    shape = tuple(sizes.values())
    window = View("window", TensorType(FLOAT32, shape), _image(*shape), steps=(shape[1] + 3, 1))
    source = generate_kernel(CopyInst(window, Activation("x", window.type)), Target.host(8))
    for length in (1, 7, 64, 131):
        counts: dict[int, int] = {}

        def store(_: str, place: int, vector: int, count: int | None = None) -> None:
            for lane in range(count or vector):
                counts[place + lane] = counts.get(place + lane, 0) + 1  # noqa: B023

        calls = {
            "get": lambda _, number, given=(rows[0], length): given[number],
            "load": lambda _, place, lanes: lanes,
            "load_masked": lambda _, place, lanes, count: lanes,
            "store": store,
            "store_masked": store,
        }
        for thread in range(threads):
            pointers = ("dest", "src", "sizes", "scratch")
            run_text(source.text, pointers, calls, thread, threads)
        places = [r * (length + 3) + c for r in range(rows[0]) for c in range(length)]
        assert counts == dict.fromkeys(places, 1)


def _image(rows: int, length: int) -> Activation:
    return Activation("image", TensorType(FLOAT32, (rows, length + 3)))


def test_a_row_that_vectors_divide_needs_no_rest() -> None:
    types = [TensorType(FLOAT32, (ROWS, LENGTH, 768))]
    source = generate_kernel(instruction_of(ExpInst, types), Target.host(8))
    assert "masked" not in source.text
    assert not source.guards
