"""Products with low-bit weights: what they mean, and what they refuse."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from glow_nb.base.errors import VerifyError
from glow_nb.base.types import ElementKind
from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.evaluate import evaluate
from glow_nb.hlir.graph import Node
from tests.unit.hlir.ops.applying import as_arguments, value


def product(**changes: Any) -> Node:
    operands = {
        "lhs": value("float32<2 x 5 x 20>"),
        "weights": value("uint4<20 x 3>"),
        "scale": value("float32<3 x 3>"),
        "offset": value("uint4<3 x 3>"),
    }
    return ops.DequantizingMatMul(**{**operands, "block": 8, **changes})


def test_rows_of_a_block_share_a_scale() -> None:
    builder = Builder()
    stored = np.array([[1], [2], [3]], np.int8)
    operands = (
        builder.input("x", "float32<1 x 3>"),
        builder.constant("w", stored.astype(ElementKind.INT4.dtype)),
        builder.constant("s", np.array([[0.5], [4.0]], np.float32)),
        builder.constant("o", np.array([[1], [-2]], np.int8).astype(ElementKind.INT4.dtype)),
    )
    builder.save(builder.emit(ops.DequantizingMatMul(*operands, block=2)), "y")
    (found,) = evaluate(builder.function(), {"x": np.array([[1, 10, 100]], np.float32)}).values()
    assert found.tolist() == [[0 * 0.5 + 10 * 0.5 + 100 * 5 * 4.0]]


def test_a_block_may_be_longer_than_the_column() -> None:
    builder = Builder()
    operands = (
        builder.input("x", "float32<1 x 2>"),
        builder.constant("w", np.array([[1], [2]], np.int8)),
        builder.constant("s", np.array([[0.5]], np.float32)),
    )
    builder.save(builder.emit(ops.DequantizingMatMul(*operands, None, block=2**70)), "y")
    (found,) = evaluate(builder.function(), {"x": np.array([[1, 10]], np.float32)}).values()
    assert found.tolist() == [[10.5]]


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"lhs": "int8<2 x 5 x 20>"}, "'lhs' is int8<2 x 5 x 20>, but its kind must be one of"),
        ({"weights": "int16<20 x 3>"}, "'weights' is int16<20 x 3>, but its kind must be one of"),
        ({"scale": "float64<3 x 3>"}, "'scale' is float64<3 x 3>, but its kind must be one of"),
        ({"weights": "uint4<21 x 3>"}, "but they must be [..., M, K] and [K, N]"),
        ({"lhs": "float32<20>"}, "but they must be [..., M, K] and [K, N]"),
        ({"block": 0}, "block is 0, but must be positive"),
        ({"block": 16}, "weights uint4<20 x 3> in blocks of 16 need float32<2 x 3>"),
        ({"offset": "uint8<3 x 3>"}, "'offset' is uint8<3 x 3>, but must be uint4<3 x 3>"),
        ({"scale": np.zeros((3, 3), np.float32)}, "every scale must be positive and finite"),
    ],
)
def test_what_does_not_fit_is_refused(changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(VerifyError, match=re.escape(problem)):
        product(**as_arguments(changes))
