"""A plan holds all that the loops of a product are made of, and its kernel is what it says."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glow_nb.backends.cpu.plan_kernels import plan_kernels
from glow_nb.base.dot_instruction import PAIRS, SINGLE, DotInstruction
from glow_nb.base.errors import UnsupportedError, VerifyError
from glow_nb.base.plan import Plan
from glow_nb.base.types import ElementKind
from glow_nb.kernels.cpu_kernels import generate_kernel, planned
from glow_nb.kernels.products.blocking import lanes_of
from glow_nb.kernels.products.convolution_shape import ConvolutionShape
from glow_nb.kernels.products.loops import Loops
from glow_nb.kernels.products.product_nest import ProductKinds, ProductNest
from glow_nb.kernels.products.product_plan import plan_loops
from glow_nb.llir.program import Program
from glow_nb.network.files import parse_all_text
from tests.targets import SMALL_CORE

PRODUCT = """declare @p {
  %x = input float32<40 x 300>
  %w = input float32<5 x 300 x 16>
  %y = output float32<40 x 80>
}
program {
  packed_mat_mul @out %y, @in %x, @in %w, @in none {depth = 80, block = 16}
}
"""


@given(
    rows=st.integers(1, 300),
    inner=st.integers(1, 5000),
    depth=st.integers(1, 300),
    taps=st.integers(1, 5),
    block=st.sampled_from([8, 16, 24, 48]),
    dot=st.sampled_from([SINGLE, PAIRS]),
    is_copied=st.booleans(),
)
def test_loops_are_what_their_plan_says(
    rows: int,
    inner: int,
    depth: int,
    taps: int,
    block: int,
    dot: DotInstruction,
    *,
    is_copied: bool,
) -> None:
    shape = ConvolutionShape(1, inner, depth, (rows,), (taps,), (1,), (taps - 1, 0), (1,))
    kinds = ProductKinds.of(ElementKind.FLOAT32)
    if dot is PAIRS:
        kinds = ProductKinds.of(ElementKind.UINT8, ElementKind.INT8, dot)
    nest = ProductNest.packed(shape, kinds, block)
    if is_copied and dot is SINGLE:
        nest = replace(nest, right=replace(nest.right, is_copied=True))
    loops = plan_loops(nest, SMALL_CORE)
    plan = loops.as_plan("direct", dot)
    assert Loops.from_plan(nest, plan, lanes_of(kinds.total, SMALL_CORE)) == loops


def test_a_kernel_has_the_tiles_of_its_plan() -> None:
    program = parse_all_text(PRODUCT)
    assert isinstance(program, Program)
    made = planned(program.work[0], SMALL_CORE)
    assert made.plan is not None
    assert made.plan.number("rows") > 3
    other = replace(made, plan=made.plan.updated(rows=3))
    assert "tiles of 3 and 2 rows x 2 vectors of 8" in generate_kernel(other, SMALL_CORE).text
    assert "tiles of 3" not in generate_kernel(made, SMALL_CORE).text


def test_a_plan_with_settings_is_kept_and_an_algorithm_alone_is_completed() -> None:
    program = parse_all_text(PRODUCT)
    assert isinstance(program, Program)
    once = plan_kernels(program, target=SMALL_CORE)
    assert once.work[0].plan == planned(program.work[0], SMALL_CORE).plan
    assert plan_kernels(once, target=SMALL_CORE) is once
    bare = replace(program.work[0], plan=Plan("direct"))
    assert planned(bare, SMALL_CORE).plan == once.work[0].plan


@pytest.mark.parametrize("lanes", [4, 8, 16])
def test_each_width_has_a_plan(lanes: int) -> None:
    program = parse_all_text(PRODUCT)
    assert isinstance(program, Program)
    plan = planned(program.work[0], replace(SMALL_CORE, lanes=lanes)).plan
    assert plan is not None
    assert plan.algorithm == "direct"


UNPACKED = """declare @p {
  %x = input float32<7 x 64>
  %w = input float32<50 x 64>
  %y = output float32<7 x 50>
}
program {
  unpacked_mat_mul @out %y, @in %x, @in %w, @in none {lhs_order = [0, 1], rhs_order = [1, 0]}
}
"""


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"units": 0}, "'units' must be a whole number from 1"),  # would not end
        ({"rows": 0}, "'rows' must be a whole number from 1 to 64, got 0"),
        ({"rows": 10**6}, "'rows' must be a whole number from 1 to 64"),
        ({"inner": None}, "'inner' must be a whole number"),
        ({"inner": 300, "panels_inside": True}, "not packed for all panels"),
        ({"rows": 64, "streams": 4, "stream_steps": 90}, "not read in 4 streams"),
        ({"dot": "tile_dot_vpdpbusd"}, "'tile_dot_vpdpbusd', which multiplies no panels"),
        ({"dot": "tile_dot_x"}, "no dot instruction is called 'tile_dot_x'"),
        ({"block": 32}, "block of packed_mat_mul .* is 16"),
    ],
)
def test_settings_that_no_kernel_can_have_are_refused(
    changes: dict[str, Any], message: str
) -> None:
    program = parse_all_text(PRODUCT)
    assert isinstance(program, Program)
    made = planned(program.work[0], SMALL_CORE)
    assert made.plan is not None
    with pytest.raises((UnsupportedError, VerifyError), match=f"plan .*{message}"):
        generate_kernel(replace(made, plan=made.plan.updated(**changes)), SMALL_CORE)


@pytest.mark.parametrize(
    ("text", "plan", "message"),
    [
        (PRODUCT, Plan("winograd"), "is made by 'direct'"),
        (PRODUCT, Plan.of("winograd", rows=4), "is made by 'direct'"),
        (UNPACKED, Plan.of("rows", rows=4, columns=3, lanes=8), "do not run along these operands"),
        (UNPACKED, Plan.of("rows", rows=4, columns=1, lanes=3), "do not run along these operands"),
        (UNPACKED, Plan.of("sweep", rows=4, block=8, steps=8), "rows of neighbours are swept"),
        (UNPACKED, Plan.of("in_place", rows=4, block=8, inner=8, units=1), "matrix is copied"),
    ],
)
def test_an_algorithm_that_cannot_compute_this_is_refused(
    text: str, plan: Plan, message: str
) -> None:
    program = parse_all_text(text)
    assert isinstance(program, Program)
    with pytest.raises(UnsupportedError, match=message):
        generate_kernel(replace(program.work[0], plan=plan), SMALL_CORE)
