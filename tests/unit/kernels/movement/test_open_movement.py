"""Gathers, scatters, pads and tiles whose sizes are open: what is taken, and where."""

from typing import Any

import numpy as np
import pytest

from glow_nb.base.types import ElementKind, TensorType
from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Function
from glow_nb.kernels.cpu_kernels import generate_kernel
from glow_nb.kernels.target import Target
from glow_nb.llir.instructions.gather import GatherElementsInst, GatherInst, GatherNDInst
from glow_nb.llir.instructions.scatter import ScatterElementsInst, ScatterNDInst
from glow_nb.llir.instructions.shape import PadInst, TileInst
from glow_nb.llir.program import Instruction
from tests.in_turn import marked, marked_rows
from tests.open_programs import check_sizes
from tests.unit.kernels.cases import instruction_of, random_array, random_indices
from tests.unit.kernels.open_cases import check_open, open_size
from tests.unit.kernels.running import RunningKernel, guarded, guards_are_intact

FLOAT32, INT32, INT64 = ElementKind.FLOAT32, ElementKind.INT32, ElementKind.INT64
N, M = open_size("n", 5), open_size("m", 37)
SETS = [{"n": n, "m": m} for n, m in ((1, 1), (5, 37), (9, 3), (2, 8), (17, 130))]

GATHERS: list[tuple[type[Instruction], tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    (GatherInst, (40, 24), (N, M), {"axis": 0}),  # of embeddings
    (GatherInst, (N, M), (M,), {"axis": 1}),  # single elements
    (GatherInst, (3, N, M), (4,), {"axis": 1}),  # rows of an open length
    (GatherElementsInst, (N, M), (N, 9), {"axis": 1}),
    (GatherElementsInst, (M, N), (7, N), {"axis": 0}),
    (GatherNDInst, (N, M, 5), (M, 2), {"batch_dims": 0}),
]


@pytest.mark.jit
@pytest.mark.parametrize(("gather", "shape", "indices", "attributes"), GATHERS)
def test_gathers(
    gather: type[Instruction],
    shape: tuple[int, ...],
    indices: tuple[int, ...],
    attributes: dict[str, Any],
) -> None:
    types = [TensorType(FLOAT32, shape), TensorType(INT64, indices)]
    check_open(instruction_of(gather, types, **attributes), SETS, Target.host(8))


@pytest.mark.jit
@pytest.mark.parametrize("mode", ["constant", "reflect", "edge", "wrap"])
def test_pads(mode: str) -> None:
    shape, pads = (N, M + 4, M + 5, 3), (0, 1, 2, 0, 0, 2, 3, 0)
    check_open(
        instruction_of(PadInst, [TensorType(FLOAT32, shape)], pads=pads, mode=mode),
        SETS,
        Target.host(8),
    )


@pytest.mark.jit
@pytest.mark.parametrize("pads", [(-2, 0, 1, 3), (1, -2, -1, 0), (0, -3, 0, 1)])
def test_pads_that_cut_off(pads: tuple[int, ...]) -> None:
    pad = instruction_of(PadInst, [TensorType(FLOAT32, (N + 2, M + 3))], pads=pads, value=2.0)
    check_open(pad, SETS, Target.host(8))


@pytest.mark.jit
def test_tiles() -> None:
    tile = instruction_of(TileInst, [TensorType(FLOAT32, (N, M))], repeats=(2, 3))
    check_open(tile, SETS, Target.host(8))


def _last_of_each(*, axis: int) -> Function:
    """Return what takes places that are known, which count from the end of an open axis."""
    builder = Builder("last")
    x = builder.input("x", TensorType(FLOAT32, (N + 2, M + 3)))
    places = builder.constant("places", np.array([-1, 0, 2], np.int64))
    builder.save(builder.emit(ops.Gather(builder.emit(ops.Exp(x)), places, axis=axis)), "y")
    return builder.function()


@pytest.mark.jit
@pytest.mark.parametrize("axis", [0, 1])
def test_known_places_count_from_the_end_of_the_run(axis: int) -> None:
    check_sizes(_last_of_each(axis=axis), SETS[1:3])


ELEMENTS: list[tuple[tuple[int, ...], tuple[int, ...], int]] = [
    ((N, M, 4), (N, 8, 4), 1),
    ((M, N), (7, N), 0),
    ((M + 3, 3, 5), (M, 7, 5), 1),
    ((2, N, 4, M), (2, 1, 4, 1), 2),
    ((N, M), (N, 2 * M), 1),
]
ROWS: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((4, N, M), (7, 2)),
    ((N, M, 6), (M, 3)),
    ((3, 16 * M), (N, 1)),  # columns of long rows are shared
    ((N, 5), (M, 1)),
    ((4, (M + 1) // 2, N + 1), (N, 1)),  # rows of a number that is a quotient
]


def _operands_of_scatter(scatter: Any) -> list[Any]:
    """Return data, indices from all of an axis and some that lie outside, and updates."""
    rng = np.random.default_rng(3)
    places = random_indices(rng, scatter.data.type.shape, scatter.indices.type)
    return [random_array(rng, scatter.data.type), places, random_array(rng, scatter.updates.type)]


@pytest.mark.jit
@pytest.mark.parametrize(("shape", "indices", "axis"), marked_rows(ELEMENTS, only=ELEMENTS[:2]))
@pytest.mark.parametrize("reduction", marked(["none", "add"], only=["add"]))
def test_scatters_of_elements(
    shape: tuple[int, ...], indices: tuple[int, ...], axis: int, reduction: str
) -> None:
    types = [TensorType(FLOAT32, shape), TensorType(INT64, indices), TensorType(FLOAT32, indices)]
    scatter = instruction_of(ScatterElementsInst, types, axis=axis, reduction=reduction)
    check_open(scatter, SETS, Target.host(8), operands_of=_operands_of_scatter, absolute=1e-5)


@pytest.mark.jit
@pytest.mark.parametrize(("shape", "indices"), marked_rows(ROWS, only=ROWS[::2]))
@pytest.mark.parametrize("reduction", marked(["none", "max"], only=["max"]))
def test_scatters_of_rows(shape: tuple[int, ...], indices: tuple[int, ...], reduction: str) -> None:
    updates = TensorType(FLOAT32, (*indices[:-1], *shape[indices[-1] :]))
    types = [TensorType(FLOAT32, shape), TensorType(INT64, indices), updates]
    scatter = instruction_of(ScatterNDInst, types, reduction=reduction)
    check_open(scatter, SETS, Target.host(8), operands_of=_operands_of_scatter)


@pytest.mark.jit
def test_a_scatter_to_rows_that_may_be_none_writes_nothing_then() -> None:
    rows = open_size("rows", 3, low=0)
    types = [TensorType(FLOAT32, (rows, 600)), TensorType(INT64, (5, 1))]
    scatter = instruction_of(ScatterNDInst, [*types, TensorType(FLOAT32, (5, 600))])
    source = generate_kernel(scatter, Target.host(4))
    assert not source.guards
    kernel = RunningKernel(source, Target.host(4))
    inner, whole = guarded((0, 600), FLOAT32)
    updates = np.ones((5, 600), np.float32)
    kernel(inner, inner, np.zeros((5, 1), np.int64), updates, np.zeros(1, np.int64), threads=1)
    assert guards_are_intact(whole)
