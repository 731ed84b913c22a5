"""Reductions across rows that come from far: whole pieces, and what is left over."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from glow_nb.base.types import ElementKind, TensorType
from glow_nb.kernels.cpu_kernels import generate_kernel
from glow_nb.kernels.reductions.reduction import LEAST_PIECES
from glow_nb.kernels.target import LANE_COUNTS, Target
from glow_nb.llir.instructions.reduction import (
    ReduceMaxInst,
    ReduceMeanInst,
    ReduceSumInst,
)
from glow_nb.llir.program import Instruction
from tests.in_turn import in_turn
from tests.unit.kernels.cases import check, instruction_of

REDUCTIONS = (ReduceMaxInst, ReduceMeanInst, ReduceSumInst)
SHAPES = ((3, 1024), (2, 3, 300), (5, 1021), (2, 4, 1024))


def far(lanes: int) -> Target:
    return replace(Target.host(lanes), l2_bytes=1024)


@pytest.mark.jit
@pytest.mark.parametrize(("shape", "kind"), in_turn(SHAPES, REDUCTIONS))
def test_rows_from_far_are_reduced(shape: tuple[int, ...], kind: type[Instruction]) -> None:
    lanes = LANE_COUNTS[len(shape) % len(LANE_COUNTS)]
    axes = (len(shape) - 2,)
    made = instruction_of(kind, [TensorType(ElementKind.FLOAT32, shape)], axes=axes)
    whole = np.random.default_rng(0).integers(-9, 9, shape).astype(np.float32)
    check(made, far(lanes), operands=[whole], ulp=1)


@pytest.mark.parametrize("lanes", LANE_COUNTS)
@pytest.mark.parametrize(("pieces", "vectors"), [(LEAST_PIECES, 0), (LEAST_PIECES - 1, 1)])
def test_pieces_are_as_long_as_leaves_some_for_threads(
    pieces: int, vectors: int, lanes: int
) -> None:
    columns = pieces * far(lanes).machine.reduced_vectors[0] * lanes
    type = TensorType(ElementKind.FLOAT32, (7, columns))
    text = generate_kernel(instruction_of(ReduceSumInst, [type], axes=(0,)), far(lanes)).text
    assert f"splat_float32(0.0, {far(lanes).machine.reduced_vectors[vectors] * lanes})" in text
