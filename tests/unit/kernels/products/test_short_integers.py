"""Products of integers of 8 and 16 bits: each operand has its own kind, the sums are int32."""

from typing import Any

import pytest

from glow_nb.base.types import ElementKind, TensorType
from glow_nb.hlir.ops.families import SHORT_INTEGERS
from glow_nb.kernels.operators.packed_instructions import (
    DepthwiseConvolutionInst,
    GroupedConvolutionInst,
    PackedConvolutionInst,
    PackedMatMulInst,
)
from glow_nb.kernels.operators.unpacked import UnpackedMatMulInst
from glow_nb.kernels.target import LANE_COUNTS, Target
from glow_nb.llir.program import Instruction
from tests.in_turn import in_turn, left_out
from tests.unit.kernels.cases import check, instruction_of

Shape = tuple[int, ...]
Product = tuple[type[Instruction], tuple[Shape, Shape, Shape | None], dict[str, Any]]
"""Instruction; shapes of left operand, right operand and bias; attributes."""

INT8, UINT8, INT16 = ElementKind.INT8, ElementKind.UINT8, ElementKind.INT16
INT32 = ElementKind.INT32
WINDOW = {"kernel": (3, 3), "stride": (1, 1), "pads": (1, 1, 1, 1), "dilation": (1, 1)}

PRODUCTS: dict[str, Product] = {
    "panels": (PackedMatMulInst, ((13, 37), (2, 37, 16), (32,)), {"depth": 21, "block": 16}),
    "panels of a batch": (
        PackedMatMulInst,
        ((3, 5, 18), (3, 1, 18, 16), None),
        {"depth": 9, "block": 16},
    ),
    "as it lies": (
        UnpackedMatMulInst,
        ((5, 33), (33, 19), (19,)),
        {"lhs_order": (0, 1), "rhs_order": (0, 1)},
    ),
    "rows times rows": (
        UnpackedMatMulInst,
        ((3, 33), (11, 33), (11,)),
        {"lhs_order": (0, 1), "rhs_order": (1, 0)},
    ),
    "one row times rows": (
        UnpackedMatMulInst,
        ((1, 75), (11, 75), None),
        {"lhs_order": (0, 1), "rhs_order": (1, 0)},
    ),
    "convolution": (
        PackedConvolutionInst,
        ((2, 5, 7, 6), (2, 1, 3, 3, 3, 16), (32,)),
        {**WINDOW, "depth": 10, "group": 2, "block": 16},
    ),
    "depthwise": (DepthwiseConvolutionInst, ((1, 5, 9, 19), (3, 3, 19), (19,)), WINDOW),
    "depthwise, twofold": (DepthwiseConvolutionInst, ((1, 5, 9, 7), (3, 3, 14), (14,)), WINDOW),
    "grouped": (GroupedConvolutionInst, ((1, 5, 9, 18), (3, 3, 2, 18), (18,)), WINDOW),
}


def product_of(name: str, left: ElementKind, right: ElementKind) -> Instruction:
    instruction_class, shapes, attributes = PRODUCTS[name]
    kinds = (left, right, INT32)
    pairs = zip(kinds, shapes, strict=True)
    types = [TensorType(kind, shape) for kind, shape in pairs if shape is not None]
    return instruction_of(instruction_class, types, **attributes)


SHOWN = ["panels", "convolution", "depthwise"]
"""Products for the slow run: others are of panels, of rows, and depthwise."""


@pytest.mark.jit
@pytest.mark.parametrize(
    ("name", "kinds"),
    in_turn(PRODUCTS, [(INT8, INT8), (INT16, UINT8), (INT32, INT8)], only=SHOWN),
)
def test_bytes_are_summed_up_in_int32(name: str, kinds: tuple[ElementKind, ElementKind]) -> None:
    lanes = LANE_COUNTS[len(name) % len(LANE_COUNTS)]
    check(product_of(name, *kinds), Target.host(lanes))


SHORT = sorted(SHORT_INTEGERS, key=lambda kind: kind.value)


@pytest.mark.jit
@pytest.mark.parametrize(("left", "right"), in_turn(SHORT, SHORT, slow=left_out(2, SHORT)))
def test_any_two_short_kinds_have_a_product(left: ElementKind, right: ElementKind) -> None:
    """The default run has two kinds with themselves; groups of factors have other pairs."""
    check(product_of("panels", left, right), Target.host(8))
