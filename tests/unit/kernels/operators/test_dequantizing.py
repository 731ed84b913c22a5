"""The product with packed low-bit weights: what it refuses."""

from __future__ import annotations

import re
from typing import Any

import pytest

from glow_nb.base.errors import VerifyError
from glow_nb.kernels.operators import PackedDequantizingMatMul
from tests.unit.hlir.ops.applying import as_arguments


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"lhs": "float64<5 x 16>"}, "its kind must be one of"),
        ({"lhs": "float32<16>"}, "'lhs' must be a matrix or a batch of them"),
        ({"scale": "float64<2 x 2 x 8>"}, "its kind must be one of"),
        ({"depth": -1}, "depth is -1, but must not be negative"),
        ({"bits": 3}, "bits is 3, but must be one of (2, 4, 8)"),
        ({"block": 0}, "block is 0, but must be positive"),
        ({"size": 4}, "size is 4, but must be a multiple of 8 that divides the 16 rows"),
        ({"bits": 8}, "but lhs float32<5 x 16> needs int8<2 x 16 x 8>"),
        ({"size": 16}, "needs float32<2 x 1 x 8>"),
        ({"offset": "uint8<2 x 2 x 8>"}, "'offset' is uint8<2 x 2 x 8>, but must be int8"),
    ],
)
def test_what_does_not_fit_is_refused(changes: dict[str, Any], problem: str) -> None:
    arguments: dict[str, Any] = {
        "lhs": "float32<5 x 16>",
        "rhs": "uint8<2 x 2 x 32>",
        "scale": "float32<2 x 2 x 8>",
        "offset": "int8<2 x 2 x 8>",
        **{"depth": 10, "block": 8, "bits": 4, "size": 8},
    } | changes
    with pytest.raises(VerifyError, match=re.escape(problem)):
        PackedDequantizingMatMul(**as_arguments(arguments))
