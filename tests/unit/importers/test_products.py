"""Matrix products and Einsum mean what onnxruntime takes them for."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.importers.models import one, value, weight
from tests.unit.importers.reference import check, numbers, typed


@pytest.mark.parametrize("opset", [7, 9, 11, 13])
@pytest.mark.parametrize("transposed", [(0, 0), (0, 1), (1, 0), (1, 1)])
@pytest.mark.parametrize("addend", [None, (5,), (1, 5), (4, 1), (4, 5), (1,), ()])
def test_gemm(opset: int, transposed: tuple[int, int], addend: tuple[int, ...] | None) -> None:
    opset = max(opset, 11) if addend is None else opset  # C is optional since opset 11
    a, b = numbers(4, 3), numbers(3, 5)
    a, b = (a.T if transposed[0] else a), (b.T if transposed[1] else b)
    weights = [weight("b", np.ascontiguousarray(b))]
    operands: tuple[str, ...] = ("x", "b")
    if addend is not None:
        weights.append(weight("c", numbers(*addend) if addend else np.float32(0.5)))
        operands = ("x", "b", "c")
    for alpha, beta in ((1.0, 1.0), (0.5, 2.0)):
        proto = one(
            "Gemm",
            operands,
            opset=opset,
            inputs=[value("x", a.shape)],
            weights=weights,
            transA=transposed[0],
            transB=transposed[1],
            alpha=alpha,
            beta=beta,
        )
        check(typed(proto), np.ascontiguousarray(a))


def test_gemm_adds_a_column_to_a_square() -> None:
    weights = [weight("b", numbers(3, 4)), weight("c", numbers(4, 1))]
    proto = one("Gemm", ("x", "b", "c"), inputs=[value("x", (4, 3))], weights=weights)
    check(typed(proto), numbers(4, 3))


MATMULS = [
    ((3,), (3,)),
    ((3,), (3, 4)),
    ((2, 3), (3,)),
    ((2, 3), (3, 4)),
    ((5, 2, 3), (3, 4)),
    ((5, 2, 3), (5, 3, 4)),
    ((2, 3), (5, 3, 4)),
    ((3,), (5, 3, 4)),
    ((5, 2, 3), (3,)),
    ((6, 1, 2, 3), (5, 3, 4)),
    ((6, 5, 2, 3), (1, 1, 3, 4)),
    ((1, 2, 3), (5, 3, 4)),
]


@pytest.mark.parametrize(("lhs", "rhs"), MATMULS)
@pytest.mark.parametrize("constant", [False, True])
def test_mat_mul_broadcasts(lhs: tuple[int, ...], rhs: tuple[int, ...], constant: bool) -> None:
    a, b = numbers(*lhs), numbers(*rhs)
    inputs = [value("x", lhs)] if constant else [value("x", lhs), value("w", rhs)]
    weights = [weight("w", b)] if constant else []
    proto = typed(one("MatMul", ("x", "w"), inputs=inputs, weights=weights))
    check(proto, *((a,) if constant else (a, b)))


@pytest.mark.parametrize(
    "equation", ["ij,jk->ik", "bij,bjk", "ijk->ki", "ii->i", "...ij,...jk->...ik"]
)
def test_einsum(equation: str) -> None:
    by_equation: dict[str, list[tuple[int, ...]]] = {
        "ij,jk->ik": [(2, 3), (3, 4)],
        "bij,bjk": [(2, 3, 4), (2, 4, 5)],
        "ijk->ki": [(2, 3, 4)],
        "ii->i": [(3, 3)],
        "...ij,...jk->...ik": [(2, 3, 4), (2, 4, 5)],
    }
    shapes = by_equation[equation]
    names = "xw"[: len(shapes)]
    inputs = [value(name, shape) for name, shape in zip(names, shapes, strict=True)]
    proto = typed(one("Einsum", tuple(names), inputs=inputs, equation=equation))
    check(proto, *(numbers(*shape) for shape in shapes))
