"""Strassen's form of products of which only the run knows how many rows they have."""

from __future__ import annotations

from typing import Any

import pytest

from glow_nb.base.types import Array, ElementKind
from glow_nb.kernels.strassen.nest import StrassenNest
from glow_nb.kernels.target import Target
from tests.unit.kernels.open_cases import check_open, open_size
from tests.unit.kernels.strassen.test_matmul import instruction_of, laid_out, random_operands

ROWS = open_size("rows", 37)
SETS = [{"rows": rows} for rows in (37, 1, 2, 13, 101, 128)]


@pytest.mark.jit
@pytest.mark.parametrize(
    ("inner", "depth"), [(64, 74), pytest.param(70, 64, marks=pytest.mark.slow)]
)
def test_one_kernel_multiplies_any_number_of_rows(inner: int, depth: int) -> None:
    nest = StrassenNest(ROWS, inner, depth, ElementKind.FLOAT32, 8)

    def operands(product: Any) -> list[Array]:
        rows = product.lhs.type.shape[0]
        lhs, rhs, bias = random_operands(StrassenNest(rows, inner, depth, nest.kind, nest.block))
        return [lhs, *laid_out(nest, rhs, bias)]

    check_open(instruction_of(nest), SETS, Target.host(8), operands_of=operands, absolute=1e-4)
