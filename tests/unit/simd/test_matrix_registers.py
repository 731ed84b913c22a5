"""Matrix registers: products in blocks of sums, by the instructions and where there are none."""

from __future__ import annotations

import numpy as np
import pytest

from glow_nb.base.alignment import aligned_empty
from glow_nb.base.dot_instruction import DOTS, MATRIX_REGISTERS, DotInstruction
from glow_nb.base.types import Array, ElementKind
from glow_nb.kernels.target import Target
from glow_nb.kernels.writing.source import KernelSource
from tests.matrix_targets import without_matrix_registers
from tests.unit.kernels.running import RunningKernel

BF16, FLOAT32, INT32 = ElementKind.BFLOAT16, ElementKind.FLOAT32, ElementKind.INT32
DOTS_OF_MATRICES = [dot for dot in DOTS.values() if dot.is_matrix]

TEXT = """
def kernel(sums, x, w, scratch, thread, threads):
    tiles = matrix_tiles(sums, {width}, {rows}, {last}, {parts}, {panels}, {groups})
    matrix_configure(tiles)
    {begin}(tiles, 0, {used})
    for tap in range(2):
        x_at, w_at = tap * {run}, tap * {panel}
        {dot}(tiles, 0, {used}, x, x_at, {stride}, {apart}, {forward}, w, w_at, {weights})
    matrix_store(tiles, 0, {used})
    matrix_release()
"""


def random(kind: ElementKind, shape: tuple[int, ...], seed: int) -> Array:
    rng = np.random.default_rng(seed)
    if kind.is_float:
        return rng.integers(-8, 9, shape).astype(kind.dtype)  # sums are exact
    low, high = kind.limits
    return rng.integers(low, high + 1, shape).astype(kind.dtype)


@pytest.mark.jit
@pytest.mark.parametrize("dot", DOTS_OF_MATRICES, ids=lambda dot: dot.name)
@pytest.mark.parametrize("has_instructions", [True, False])
@pytest.mark.parametrize(
    ("parts", "panels", "used", "rows", "last", "groups", "begin"),
    [
        (2, 2, 2, 16, 16, 16, "matrix_clear"),
        (2, 2, 1, 13, 12, 9, "matrix_load"),
        (1, 4, 4, 7, 7, 16, "matrix_load"),
        (1, 3, 2, 1, 1, 3, "matrix_clear"),
        (3, 1, 1, 11, 10, 16, "matrix_clear"),
    ],
)
def test_blocks_of_sums(
    dot: DotInstruction,
    has_instructions: bool,
    parts: int,
    panels: int,
    used: int,
    rows: int,
    last: int,
    groups: int,
    begin: str,
) -> None:
    target = Target.host()
    if has_instructions and MATRIX_REGISTERS not in target.instruction_sets:
        pytest.skip("this processor has no matrix registers")
    target = target if has_instructions else without_matrix_registers(target)
    (left,), (right,) = dot.left, dot.right
    total = FLOAT32 if dot.is_float else INT32
    height, width, steps = (parts - 1) * rows + last, 16 * panels, 3
    run = steps * groups * dot.group
    x = random(left, (height, 2 * run), 0)
    w = random(right, (2, steps * groups, width, dot.group), 1)
    before = random(total, (height, width), 2)
    text = TEXT.format(
        width=width,
        rows=rows,
        last=last,
        parts=parts,
        panels=panels,
        groups=groups,
        begin=begin,
        used=used,
        dot=dot.name,
        run=run,
        stride=2 * run,
        apart=2 * run * rows,
        forward=groups * dot.group,
        panel=w[0].size,
        weights=f"{width * dot.group}, {steps * groups}, 0, {parts - 1}",
    )
    sums = aligned_empty(before.nbytes).view(before.dtype).reshape(before.shape)
    sums[...] = before
    RunningKernel(KernelSource("blocks", text, (total, left, right)), target)(sums, x, w)
    plain = w.astype(np.float64).transpose(0, 1, 3, 2).reshape(2 * run, width)
    wanted = x.astype(np.float64) @ plain
    if begin == "matrix_load":
        wanted = wanted + before
    if not dot.is_float:
        wanted = wanted.astype(np.int64).astype(np.int32)
    np.testing.assert_array_equal(sums[:, : 16 * used], wanted[:, : 16 * used])
    np.testing.assert_array_equal(sums[:, 16 * used :], before[:, 16 * used :])
