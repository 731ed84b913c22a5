"""Gathers, pads and tiles whose sizes are open: what is taken, where, and how much of it."""

from typing import Any

import numpy as np
import pytest

from glow_nb.base.types import ElementKind, TensorType
from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Function
from glow_nb.kernels.target import Target
from glow_nb.llir.instructions.gather import GatherElementsInst, GatherInst, GatherNDInst
from glow_nb.llir.instructions.shape import PadInst, TileInst
from glow_nb.llir.program import Instruction
from tests.open_programs import check_sizes
from tests.unit.kernels.cases import instruction_of
from tests.unit.kernels.open_cases import check_open, open_size

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
