"""Panels of 16-bit floats that become ``float32`` in scratch, once for a block of tiles."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from glow_nb.base.errors import UnsupportedError
from glow_nb.base.plan import Plan
from glow_nb.base.size import Symbol
from glow_nb.base.types import ElementKind, TensorType
from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.kernels.cpu_kernels import generate_kernel, planned
from glow_nb.kernels.machine.rows import SAPPHIRE_RAPIDS, ZEN3
from glow_nb.kernels.operators.packed_instructions import PackedConvolutionInst, PackedMatMulInst
from glow_nb.kernels.target import LANE_COUNTS, Target
from glow_nb.llir.program import Instruction
from tests.in_turn import in_turn
from tests.open_programs import check_sizes
from tests.targets import SMALL_CORE
from tests.unit.kernels.cases import check, instruction_of

FLOAT16, BFLOAT16, FLOAT32 = ElementKind.FLOAT16, ElementKind.BFLOAT16, ElementKind.FLOAT32
KINDS = [FLOAT16, BFLOAT16]

TINY = replace(Target.host(8), l1_bytes=8 << 10, l2_bytes=64 << 10)
"""A processor whose caches hold so little that small products have several blocks."""

WINDOW = {"kernel": (3, 3), "stride": (1, 1), "pads": (1, 1, 1, 1), "dilation": (1, 1)}

Product = tuple[type[Instruction], tuple[tuple[int, ...], ...], dict[str, Any]]
"""Instruction; shapes of operands; attributes."""

PRODUCTS: dict[str, Product] = {
    "a narrow last panel": (
        PackedMatMulInst,
        ((37, 70), (3, 70, 16), (48,)),
        {"depth": 37, "block": 16},
    ),
    "several inner blocks": (
        PackedMatMulInst,
        ((29, 300), (2, 300, 24), (48,)),
        {"depth": 44, "block": 24},
    ),
    "several blocks of rows": (
        PackedMatMulInst,
        ((190, 200), (5, 200, 16), (80,)),
        {"depth": 80, "block": 16},
    ),
    "panels of a batch": (
        PackedMatMulInst,
        ((3, 20, 18), (3, 2, 18, 16)),
        {"depth": 25, "block": 16},
    ),
    "a convolution": (
        PackedConvolutionInst,
        ((2, 9, 11, 40), (1, 2, 3, 3, 40, 16), (32,)),
        {**WINDOW, "depth": 27, "group": 1, "block": 16},
    ),
    "taps in inner blocks": (
        PackedConvolutionInst,
        ((2, 9, 11, 5), (1, 1, 3, 3, 5, 16), (16,)),
        {**WINDOW, "depth": 9, "group": 1, "block": 16},
    ),
    "groups": (
        PackedConvolutionInst,
        ((1, 7, 13, 12), (2, 1, 3, 3, 6, 16), (32,)),
        {**WINDOW, "depth": 22, "group": 2, "block": 16},
    ),
    "volumes": (
        PackedConvolutionInst,
        ((1, 5, 4, 9, 30), (1, 2, 2, 2, 1, 30, 16), (32,)),
        {
            "kernel": (2, 2, 1),
            "stride": (1, 1, 1),
            "pads": (0, 1, 0, 1, 0, 0),
            "dilation": (1, 1, 1),
            "depth": 32,
            "group": 1,
            "block": 16,
        },
    ),
}


def product_of(name: str, kind: ElementKind) -> Instruction:
    instruction_class, shapes, attributes = PRODUCTS[name]
    return instruction_of(
        instruction_class, [TensorType(kind, shape) for shape in shapes], **attributes
    )


def matrix(rows: int, inner: int, depth: int, kind: ElementKind, *, block: int = 16) -> Instruction:
    types = [TensorType(kind, (rows, inner)), TensorType(kind, (-(-depth // block), inner, block))]
    return instruction_of(PackedMatMulInst, types, depth=depth, block=block)


def is_widened(instruction: Instruction, target: Target) -> bool:
    plan = planned(instruction, target).plan
    assert plan is not None
    return plan.is_set("widened")


@pytest.mark.jit
@pytest.mark.parametrize(
    ("name", "kind"),
    in_turn(PRODUCTS, KINDS, only=["a narrow last panel", "several inner blocks", "a convolution"]),
)
def test_widened_panels_give_the_same_sums(name: str, kind: ElementKind) -> None:
    instruction = product_of(name, kind)
    assert is_widened(instruction, TINY)
    assert "near_panel = as_float32" in generate_kernel(instruction, TINY).text
    # the kernel may leave out zeros around an image, which evaluate multiplies by infinity
    has_specials = isinstance(instruction, PackedMatMulInst)
    check(instruction, TINY, specials=has_specials, absolute=1e-3)


@pytest.mark.jit
@pytest.mark.slow
@pytest.mark.parametrize("lanes", LANE_COUNTS)
@pytest.mark.parametrize("kind", KINDS)
def test_vectors_of_any_length_are_widened(kind: ElementKind, lanes: int) -> None:
    instruction = matrix(31, 130, 90, kind, block=48)
    target = replace(Target.host(lanes), l1_bytes=8 << 10)
    assert is_widened(instruction, target)
    check(instruction, target, absolute=1e-3)


@pytest.mark.jit
def test_a_processor_without_conversions_widens_by_integers() -> None:
    assert is_widened(matrix(33, 70, 20, FLOAT16), SMALL_CORE)
    check(matrix(33, 70, 20, FLOAT16), SMALL_CORE, absolute=1e-3)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("row", [ZEN3, SAPPHIRE_RAPIDS])
def test_many_rows_are_worth_a_copy_of_panels(row: Any, kind: ElementKind) -> None:
    target = Target.of(row)
    widths = [rows for rows in (1, 2, 16, 64, 300) if is_widened(wide(rows, kind), target)]
    assert widths == [16, 64, 300]


def wide(rows: int, kind: ElementKind) -> Instruction:
    return matrix(rows, 2048, 5632, kind, block=32)


def test_other_kinds_are_read_where_they_lie() -> None:
    assert not is_widened(wide(64, FLOAT32), SMALL_CORE)
    plan = Plan.of("direct", dot="tile_dot_vdpbf16ps", block=16)
    types = [TensorType(BFLOAT16, shape) for shape in ((64, 64), (2, 32, 32))]
    pairs = instruction_of(PackedMatMulInst, types, depth=32, block=16, plan=plan)
    assert not is_widened(pairs, SMALL_CORE)


def test_a_plan_that_widens_nothing_is_an_error() -> None:
    made = planned(wide(64, FLOAT32), SMALL_CORE)
    assert made.plan is not None
    wrong = replace(made, plan=made.plan.updated(widened=True))
    with pytest.raises(UnsupportedError, match="float32 and float32 in panels has nothing to wid"):
        generate_kernel(wrong, SMALL_CORE)


def test_a_panel_is_copied_once_for_each_inner_block_and_block_of_units() -> None:
    text = generate_kernel(matrix(64, 1024, 96, FLOAT16, block=48), SMALL_CORE).text
    lines = text.splitlines()
    (written,) = (line for line in lines if "tile_store(near_panel" in line)
    dots = [line for line in lines if "tile_dot(" in line]

    def indent(line: str) -> int:
        return len(line) - len(line.lstrip())

    assert dots
    assert all("rows, " in line and "near_panel, " in line for line in dots)
    begins = [line for line in lines if line.lstrip().startswith("for tile_")]
    assert all(indent(line) == indent(written) - len("    ") for line in begins)


@pytest.mark.jit
@pytest.mark.parametrize(
    ("kind", "threads"), [(FLOAT16, 2), pytest.param(BFLOAT16, 1, marks=pytest.mark.slow)]
)
def test_open_rows_are_widened_and_few_of_them_are_not(kind: ElementKind, threads: int) -> None:
    rng = np.random.default_rng(0)
    builder = Builder("open")
    x = builder.input("x", TensorType(kind, (Symbol("n", 32, 1, 512).size, 200)))
    weights = rng.integers(-2, 3, (200, 44)).astype(kind.dtype)
    product = builder.emit(ops.MatMul(x, builder.constant("w", weights), wide=True))
    builder.save(builder.emit(ops.Relu(product)), "y")
    target = replace(SMALL_CORE, features=f"{SMALL_CORE.features},+f16c")
    sets = [{"n": 3}, {"n": 67}]
    executable = check_sizes(builder.function(), sets, target=target, threads=threads)
    (use,) = executable.kernels
    assert "widened = true" in use.instruction
    assert "few_rows = " in use.instruction
