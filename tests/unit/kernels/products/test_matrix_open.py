"""Products in matrix registers of rows that only the run counts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from glow_nb.base.errors import UnsupportedError
from glow_nb.base.plan import Plan
from glow_nb.base.types import ElementKind
from glow_nb.kernels.cpu_kernels import generate_kernel
from glow_nb.kernels.target import Target
from tests.in_turn import marked_rows
from tests.matrix_targets import without_matrix_registers
from tests.unit.kernels.open_cases import check_open, open_size
from tests.unit.kernels.products.test_groups_of_factors import images, matrices

INT8 = ElementKind.INT8
ROWS = (0, 1, 2, 3, 4, 5, 15, 16, 17, 31, 32, 33, 48, 49, 97)


@pytest.mark.jit
@pytest.mark.parametrize(
    ("depth", "most", "inner"),
    marked_rows(
        [(10, 48, 16), (10, 40, 32), (24, 23, 32), (24, 32, 16), (40, 16, 32)],
        only=[(10, 40, 32), (24, 32, 16), (40, 16, 32)],
    ),
)
def test_tiles_of_open_rows(depth: int, most: int, inner: int) -> None:
    """Tiles of one panel have up to three parts below each other, those of two panels two.

    Nothing may be written after the sums that wait, and few rows are not too few for the parts.
    """
    rows, block = open_size("rows", 40, 0), -(-depth // 16) * 16
    plan = Plan.of("direct", dot="tile_dot_tdpbssd", rows=most, inner=inner, units=2)
    product = replace(matrices(INT8, INT8, 4, (rows, 128, depth), block), plan=plan)
    sets = [{"rows": number} for number in ROWS]
    check_open(product, sets, without_matrix_registers(Target.host(16)), threads=(1, 2))


@pytest.mark.jit
def test_sums_of_lines_that_are_shorter_than_the_hint_have_room() -> None:
    """A block has no more lines than it has room for, however short these are."""
    height, width = open_size("h", 30, 2), open_size("w", 28, 2)
    plan = Plan.of("direct", dot="tile_dot_tdpbssd", rows=24, inner=16, units=4)
    made = images((INT8, INT8, 4), (1, height, width, 256), 32, (2, 2), block=32)
    sets = [{"h": 17, "w": 2}, {"h": 17, "w": 15}, {"h": 9, "w": 40}]
    target = without_matrix_registers(Target.host(16))
    check_open(replace(made, plan=plan), sets, target, threads=(1, 2))


def test_inner_blocks_are_whole_steps() -> None:
    plan = Plan.of("direct", dot="tile_dot_tdpbssd", rows=16, inner=4, units=1)
    product = replace(matrices(INT8, INT8, 4, (32, 128, 16), 16), plan=plan)
    with pytest.raises(UnsupportedError, match="matrix registers do not take 16 at a time"):
        generate_kernel(product, Target.host(16))
