"""Products and layers with quantized weights, softmax and selections, as ONNX Runtime has them."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest

from glow_nb.base.errors import ModelError, UnsupportedError
from glow_nb.base.types import Array
from glow_nb.formats.onnx.importer import import_onnx
from glow_nb.hlir.evaluate import evaluate
from tests.exact_sessions import exact_session
from tests.unit.formats.onnx.importer.complaints import complaint
from tests.unit.formats.onnx.importer.models import one
from tests.unit.formats.onnx.importer.reference import RANDOM, numbers
from tests.unit.formats.onnx.importer.test_quantization import check, model_of, parameters, stored


def scales(count: int) -> Array:
    return RANDOM.uniform(0.01, 0.1, count).astype(np.float32)


def check_close(proto: Any, feeds: dict[str, Array], tolerance: float = 1e-5) -> None:
    wanted = exact_session(proto.SerializeToString()).run(None, feeds)
    for got, want in zip(evaluate(import_onnx(proto), feeds).values(), wanted, strict=True):
        assert (got.dtype, got.shape) == (want.dtype, want.shape)
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance * np.abs(want).max())


@pytest.mark.parametrize("kinds", [("uint8", "int8"), ("uint8", "uint8")])
@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("zeros", ["neither", "left", "right", "both"])
@pytest.mark.parametrize("biased", [False, True])
def test_products_of_integers_become_floats(
    kinds: tuple[str, str], columns: bool, zeros: str, biased: bool
) -> None:
    left, right = kinds
    operands = [
        stored(left, 2, 3, 4),
        stored(right, 4, 5),
        np.array(0.03, np.float32),
        scales(5) if columns else np.array(0.02, np.float32),
        np.array(7, left) if zeros in ("left", "both") else None,
        None
        if zeros in ("neither", "left")
        else stored(right, 5)
        if columns
        else np.array(3, right),
        numbers(5) if biased else None,
    ]
    while operands[-1] is None:
        operands.pop()
    check_close(*model_of("MatMulIntegerToFloat", operands, (0,), result="float32"))


@pytest.mark.parametrize("right", ["uint8", "int8"])
def test_signed_rows_become_floats(right: str) -> None:
    """ONNX Runtime has no kernel for them."""
    a, b, b_scale, b_zero = stored("int8", 3, 4), stored(right, 4, 5), scales(5), stored(right, 5)
    scale, zero = np.array(0.03, np.float32), np.array(-7, np.int8)
    operands = [a, b, scale, b_scale, zero, b_zero]
    proto, feeds = model_of("MatMulIntegerToFloat", operands, (0,), result="float32")
    (got,) = evaluate(import_onnx(proto), feeds).values()
    exact = (a.astype(np.int64) + 7) @ (b.astype(np.int64) - b_zero)
    np.testing.assert_allclose(got, exact * float(scale) * b_scale.astype(np.float64), rtol=1e-6)


@pytest.mark.parametrize("kind", ["uint8", "int8"])
@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("zero", [False, True])
@pytest.mark.parametrize("biased", [False, True])
def test_products_of_floats_that_are_quantized_by_their_range(
    kind: str, columns: bool, zero: bool, biased: bool
) -> None:
    zeros = stored(kind, 5) if columns else np.array(3, kind)
    operands = [
        numbers(2, 3, 4),
        stored(kind, 4, 5),
        scales(5) if columns else np.array(0.02, np.float32),
        zeros if zero else None,
        numbers(5) if biased else None,
    ]
    while operands[-1] is None:
        operands.pop()
    check_close(*model_of("DynamicQuantizeMatMul", operands, (0,), result="float32"))


@pytest.mark.parametrize("kind", ["uint8", "int8"])
@pytest.mark.parametrize(("opset", "axis"), [(13, -1), (13, 1), (12, 1), (12, 2), (13, None)])
def test_softmax(kind: str, opset: int, axis: int | None) -> None:
    least = np.iinfo(kind).min
    operands = [stored(kind, 2, 3, 4), *parameters(kind), *parameters(kind, 1 / 256, least)]
    attributes: dict[str, Any] = {} if axis is None else {"axis": axis}
    proto = model_of("QLinearSoftmax", operands, result=kind, opset=opset, **attributes)
    # The attribute of that name is not the argument of the function.
    proto[0].graph.node[0].attribute.add(name="opset", i=opset, type=2)
    check(*proto, steps=1)


@pytest.mark.parametrize("kind", ["uint8", "int8"])
@pytest.mark.parametrize("shapes", [((2, 3), (2, 3)), ((2, 3), (3,)), ((1,), (2, 3))])
def test_selections(kind: str, shapes: tuple[tuple[int, ...], ...]) -> None:
    operands = [
        np.array([[True, False, True], [False, False, True]]),
        stored(kind, *shapes[0]),
        *parameters(kind),
        stored(kind, *shapes[1]),
        *parameters(kind, 0.02, 9),
        *parameters(kind, 0.06, 1),
    ]
    check(*model_of("QLinearWhere", operands, (0, 1, 4), result=kind), steps=1)


def lstm(
    kind: str, columns: bool, direction: str, *, whole: bool
) -> tuple[list[Array | None], list[Array | None]]:
    """Return the operands of a quantized LSTM, and those of one with the same weights as floats."""
    directions, steps, batch, inputs, hidden = 1 + (direction == "bidirectional"), 4, 2, 3, 5
    weights, parts = [], []
    for size in (inputs, hidden):
        matrix = stored(kind, directions, size, 4 * hidden)
        shape = (directions, 4 * hidden) if columns else (directions,)
        scale = RANDOM.uniform(0.002, 0.006, shape).astype(np.float32)
        zero = np.full(shape, 5 + size, kind)  # ONNX Runtime takes no others for columns
        over = (directions, 1, -1)
        real = (matrix.astype(np.float32) - zero.reshape(over)) * scale.reshape(over)
        weights.append(real.astype(np.float32).transpose(0, 2, 1))
        parts.append((matrix, scale, zero))
    rest: list[Array | None] = [None] * 5
    if whole:
        rest = [
            numbers(directions, 8 * hidden),
            np.array([4, 2], np.int32),
            numbers(directions, batch, hidden),
            numbers(directions, batch, hidden),
            numbers(directions, 3 * hidden),
        ]
    (w, *w_parameters), (r, *r_parameters) = parts
    x = numbers(steps, batch, inputs)
    return [x, w, r, *rest, *w_parameters, *r_parameters], [x, *weights, *rest]


@pytest.mark.parametrize("kind", ["uint8", "int8"])
@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("whole", [False, True])
def test_a_quantized_lstm_is_an_lstm_with_these_weights(
    kind: str, columns: bool, direction: str, whole: bool
) -> None:
    """ONNX Runtime quantizes activations, too, which costs it some of 255 steps."""
    quantized, plain = lstm(kind, columns, direction, whole=whole)
    attributes: dict[str, Any] = {"hidden_size": 5, "direction": direction}
    proto, feeds = model_of("DynamicQuantizeLSTM", quantized, result="float32", **attributes)
    reference, _ = model_of("LSTM", plain, result="float32", domain="", **attributes)
    (got,) = evaluate(import_onnx(proto), feeds).values()
    session = onnxruntime.InferenceSession(reference.SerializeToString())
    np.testing.assert_allclose(got, session.run(None, feeds)[0], rtol=1e-4, atol=1e-5)
    (rounded,) = exact_session(proto.SerializeToString()).run(None, feeds)
    np.testing.assert_allclose(got, rounded, atol=0.05)


def test_scales_of_a_quantized_lstm_must_fit() -> None:
    operands, _ = lstm("int8", False, "forward", whole=False)
    operands[8] = np.ones(3, np.float32)
    proto, _ = model_of("DynamicQuantizeLSTM", operands, result="float32", hidden_size=5)
    assert "must be one number for each of 1 directions" in complaint(proto, ModelError)


def test_an_unknown_operator_of_the_domain_says_which_are_known() -> None:
    message = complaint(one("Unknown", domain="com.microsoft"), UnsupportedError)
    assert "of domain 'com.microsoft', DequantizeLinear, DynamicQuantizeLSTM, " in message
    assert "domain 'other' is not known" in complaint(
        one("Unknown", domain="other"), UnsupportedError
    )
