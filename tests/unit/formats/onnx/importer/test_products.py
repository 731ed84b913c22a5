"""Matrix products and Einsum mean what onnxruntime takes them for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto

from glow_nb.base.errors import ModelError
from glow_nb.base.types import ElementKind
from glow_nb.formats.onnx.importer import import_onnx
from glow_nb.hlir.evaluate import evaluate
from glow_nb.hlir.ops import Convolution, MatMul
from tests.unit.formats.onnx.importer.models import one, value, weight
from tests.unit.formats.onnx.importer.reference import RANDOM, check, numbers, typed

PRODUCTS = (Convolution, MatMul)


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


def bytes_of(kind: str, *shape: int) -> Any:
    limits = np.iinfo(kind)
    return RANDOM.integers(limits.min, limits.max, shape, kind, endpoint=True)


ZERO_POINTS: dict[str, Any] = {
    "absent": None,
    "zero": np.array(0, np.uint8),
    "one": np.array(128, np.uint8),
    "each column": bytes_of("uint8", 5),
}


@pytest.mark.parametrize("name", ZERO_POINTS)
@pytest.mark.parametrize("fixed", ["", "w", "wv", "wuv", "xu"])
@pytest.mark.parametrize("shapes", [((4, 7), (7, 5)), ((2, 3, 4, 7), (3, 7, 5)), ((7,), (7, 5))])
def test_mat_mul_integer(name: str, fixed: str, shapes: tuple[tuple[int, ...], ...]) -> None:
    """Operands and zero points are fed or constant, the latter absent, one or one a column."""
    zero = ZERO_POINTS[name]
    arrays = {"x": bytes_of("int8", *shapes[0]), "w": bytes_of("uint8", *shapes[1])}
    if zero is not None:
        arrays |= {"u": np.array(-3, np.int8), "v": zero}
    feeds = {key: array for key, array in arrays.items() if key not in fixed}
    kinds = {"x": TensorProto.INT8, "u": TensorProto.INT8}
    proto = one(
        "MatMulInteger",
        tuple(arrays),
        inputs=[
            value(key, array.shape, kinds.get(key, TensorProto.UINT8))
            for key, array in feeds.items()
        ],
        weights=[weight(key, array) for key, array in arrays.items() if key in fixed],
    )
    (found,) = evaluate(import_onnx(proto), feeds).values()
    x, w, u, v = (np.asarray(arrays.get(key, 0), np.int32) for key in "xwuv")
    np.testing.assert_array_equal(found, (x - u) @ (w - v))
    assert found.dtype == np.int32


def kinds_of_product(proto: Any) -> list[ElementKind]:
    """Return the kinds of the two operands of the only product of a model."""
    (product,) = (node for node in import_onnx(proto) if isinstance(node, PRODUCTS))
    return [factor.type.kind for factor in product.factors]


@pytest.mark.parametrize(
    ("zero", "kind"),
    [(None, "int8"), (0, "int8"), (1, "int16"), (-1, "int8"), (-128, "uint8")],
)
def test_constant_bytes_without_their_zero_point_are_as_short_as_they_can_be(
    zero: int | None, kind: str
) -> None:
    weights = [weight("w", np.array([[-128], [126]], np.int8))]
    operands = ["x", "w"]
    if zero is not None:
        weights += [weight("u", np.uint8(0)), weight("v", np.int8(zero))]
        operands += ["u", "v"]
    inputs = [value("x", (4, 2), TensorProto.UINT8)]
    proto = one("MatMulInteger", operands, inputs=inputs, weights=weights)
    assert kinds_of_product(proto) == [ElementKind.UINT8, ElementKind(kind)]


def test_bytes_around_128_are_signed_bytes() -> None:
    weights = [weight("w", bytes_of("uint8", 2, 3, 1, 1)), weight("u", np.uint8(0))]
    weights += [weight("v", np.uint8(128))]
    inputs = [value("x", (1, 3, 4, 4), TensorProto.UINT8)]
    proto = one("ConvInteger", ("x", "w", "u", "v"), inputs=inputs, weights=weights)
    assert kinds_of_product(proto) == [ElementKind.UINT8, ElementKind.INT8]


def test_a_zero_point_of_a_run_leaves_16_bits_of_convolved_bytes() -> None:
    inputs = [value("x", (1, 2, 4, 4), TensorProto.UINT8), value("u", (), TensorProto.UINT8)]
    weights = [weight("w", bytes_of("int8", 3, 2, 1, 1))]
    proto = one("ConvInteger", ("x", "w", "u"), inputs=inputs, weights=weights)
    assert kinds_of_product(proto) == [ElementKind.INT16, ElementKind.INT8]


@pytest.mark.parametrize("zero", [(), (1,), (4,), (5, 4, 1)])
def test_bytes_are_multiplied_by_known_ones_whatever_their_zero_point(
    zero: tuple[int, ...],
) -> None:
    inputs = [value("x", (5, 4, 70), TensorProto.UINT8), value("u", zero, TensorProto.UINT8)]
    w, v = bytes_of("int8", 70, 3), bytes_of("int8", 3)
    weights = [weight("w", w), weight("v", v)]
    proto = one("MatMulInteger", ("x", "w", "u", "v"), inputs=inputs, weights=weights)
    assert kinds_of_product(proto)[0] is ElementKind.UINT8
    x, u = bytes_of("uint8", 5, 4, 70), bytes_of("uint8", *zero)
    (found,) = evaluate(import_onnx(proto), {"x": x, "u": u}).values()
    rows = u[:, None] if u.shape == (4,) else u
    wanted = (x.astype(np.int32) - rows) @ (w.astype(np.int32) - v)
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(
    ("rows", "columns", "words"),
    [
        (1, 4, r"zero points %v : int8<4> do not fit operand %w : .*, or 3 for .* its axis 1"),
        (3, 1, r"zero points %u : uint8<3> do not fit operand %x : .*, or 4 for .* its axis 0"),
    ],
)
def test_zero_points_for_another_size_are_refused(rows: int, columns: int, words: str) -> None:
    inputs = [value("x", (4, 2), TensorProto.UINT8)]
    weights = [weight("w", bytes_of("int8", 2, 3)), weight("u", np.zeros(rows, np.uint8))]
    weights += [weight("v", np.zeros(columns, np.int8))]
    proto = one("MatMulInteger", ("x", "w", "u", "v"), inputs=inputs, weights=weights)
    with pytest.raises(ModelError, match=words):
        import_onnx(proto)


def test_zero_points_of_more_axes_are_refused_by_their_names_too() -> None:
    inputs = [value("x", (2, 4, 2), TensorProto.UINT8)]
    weights = [weight("w", bytes_of("int8", 2, 3)), weight("u", np.zeros((2, 3, 1), np.uint8))]
    proto = one("MatMulInteger", ("x", "w", "u"), inputs=inputs, weights=weights)
    words = r"zero points %u : uint8<2 x 3 x 1> do not broadcast to operand %x : uint8<2 x 4 x 2>"
    with pytest.raises(ModelError, match=words):
        import_onnx(proto)


def test_einsum_of_bytes_wraps_around_in_bytes() -> None:
    inputs = [value(name, (1, 1), TensorProto.INT8) for name in "xw"]
    function = import_onnx(one("Einsum", ("x", "w"), inputs=inputs, equation="ij,jk->ik"))
    feeds = {"x": np.array([[100]], np.int8), "w": np.array([[3]], np.int8)}
    (found,) = evaluate(function, feeds).values()
    np.testing.assert_array_equal(found, np.array([[300]]).astype(np.int8))
    assert found.dtype == np.int8
