"""Random nodes of the functions of single elements."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import helper

from tests.property.onnx_draws.drawing import (
    ANY,
    BYTES,
    FLOATS,
    INTS,
    NUMBERS,
    WHOLE,
    Drawing,
    Shape,
    recipe,
)
from tests.property.onnx_draws.reference import RefusedError

SINGLES = ("float32", "float16")
"""Kinds of operators that ONNX Runtime computes in float32 even for float64."""

_RANGES = {
    "Log": (0.1, 4),
    "Sqrt": (0.0, 4),
    "Reciprocal": (0.3, 3),
    "Asin": (-0.9, 0.9),
    "Acos": (-0.9, 0.9),
    "Atanh": (-0.9, 0.9),
    "Acosh": (1.1, 4),
    "Tan": (-1, 1),
}
_FLOAT_FUNCTIONS = (
    "Sigmoid Tanh HardSwish Softplus Erf Exp Log Sqrt Reciprocal Floor Ceil Round Sin Cos Tan Asin "
    "Acos Atan Sinh Cosh Asinh Acosh Atanh IsNaN Softsign Mish"
).split()


@recipe(*_FLOAT_FUNCTIONS)
def unary(g: Drawing, op: str) -> None:
    low, high = _RANGES.get(op, (-3, 3))
    kinds = SINGLES if op == "HardSwish" else FLOATS
    g.add(op, [g.tensor(kinds, low=low, high=high)])


@recipe("Relu", "Neg", "Abs", "Sign")
def signed(g: Drawing, op: str) -> None:
    g.add(op, [g.tensor(NUMBERS)])


@recipe("Identity")
def identity(g: Drawing, op: str) -> None:
    g.add(op, [g.tensor(ANY)])


@recipe("Not")
def negation(g: Drawing, op: str) -> None:
    g.add(op, [g.tensor(("bool",))])


@recipe("BitwiseNot")
def bitwise_not(g: Drawing, op: str) -> None:
    g.add(op, [g.tensor(WHOLE)])


@recipe("LeakyRelu", "Elu", "Celu", "ThresholdedRelu")
def by_alpha(g: Drawing, op: str) -> None:
    g.add(op, [g.tensor()], **g.some(alpha=g.number(0.1, 2)))


@recipe("HardSigmoid")
def hard_sigmoid(g: Drawing, op: str) -> None:
    g.add(op, [g.tensor()], **g.some(alpha=g.number(0.1, 1), beta=g.number(-1, 1)))


@recipe("Selu")
def selu(g: Drawing, op: str) -> None:
    g.add(op, [g.tensor()], **g.some(alpha=g.number(0.1, 2), gamma=g.number(0.1, 2)))


@recipe("Gelu")
def gelu(g: Drawing, op: str) -> None:
    g.since(20)
    g.add(op, [g.tensor(SINGLES)], **g.some(approximate="tanh"))


@recipe("Shrink")
def shrink(g: Drawing, op: str) -> None:
    g.add(op, [g.tensor(SINGLES)], **g.some(bias=g.number(-1, 1), lambd=g.number(0, 1)))


@recipe("IsInf")
def is_inf(g: Drawing, op: str) -> None:
    x = g.fresh(np.array([1, np.inf, -np.inf, np.nan], np.float32))
    g.tensors[x].is_operand = False
    g.add(op, [x], **g.some(detect_positive=g.whole(0, 1), detect_negative=g.whole(0, 1)))


@recipe("Dropout")
def dropout(g: Drawing, op: str) -> None:
    g.add(op, [g.tensor()], g.whole(1, 2 if g.opset >= 12 else 1))  # the mask was nobody's promise


@recipe("Clip")
def clip(g: Drawing, op: str) -> None:
    x = g.tensor((*FLOATS, *INTS, *BYTES))
    bounds = [
        g.fresh(g.array(g.kind_of(x), (), low, high)) if g.chance(0.7) else ""
        for low, high in ((-1, 1), (0, 2))
    ]
    g.add(op, [x, *bounds])


@recipe("Add", "Sub", "Mul")
def arithmetic(g: Drawing, op: str) -> None:
    x = g.tensor(NUMBERS)
    operands = [x, g.broadcastable(x)]
    g.source.shuffle(operands)
    g.add(op, operands)


@recipe("Div")
def division(g: Drawing, op: str) -> None:
    x = g.tensor((*FLOATS, *INTS))
    g.add(op, [x, g.broadcastable(x, low=1, high=3)])


@recipe("Mod")
def modulus(g: Drawing, op: str) -> None:
    x = g.tensor((*INTS, *BYTES, *FLOATS))
    divisor = g.broadcastable(x, low=1, high=3)
    if g.kind_of(x) in FLOATS:
        g.add(op, [x, divisor], fmod=1)
    else:
        g.add(op, [x, divisor], **g.some(fmod=g.whole(0, 1)))


@recipe("Pow")
def power(g: Drawing, op: str) -> None:
    x = g.tensor((*FLOATS, *INTS), low=0.2, high=2)
    shape = g.shape_of(g.broadcastable(x))
    g.add(op, [x, g.tensor((*FLOATS, *INTS), shape=shape, low=0, high=1)])


@recipe("Max", "Min", "Sum", "Mean")
def variadic(g: Drawing, op: str) -> None:
    x = g.tensor((*FLOATS, *INTS) if op in ("Max", "Min") else FLOATS)
    operands = [x, *(g.broadcastable(x) for _ in range(g.whole(0, 3)))]
    g.source.shuffle(operands)
    g.add(op, operands)


@recipe("PRelu")
def prelu(g: Drawing, op: str) -> None:
    x = g.tensor()
    shape = tuple(n if g.chance(0.7) else 1 for n in g.shape_of(x))
    g.add(op, [x, g.like(x, shape[g.whole(0, len(shape)) :])])


@recipe("Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual")
def comparison(g: Drawing, op: str) -> None:
    x = g.tensor(ANY if op == "Equal" else NUMBERS)
    g.add(op, [x, g.broadcastable(x)])


@recipe("And", "Or", "Xor")
def logic(g: Drawing, op: str) -> None:
    x = g.tensor(("bool",))
    g.add(op, [x, g.broadcastable(x)])


@recipe("BitwiseAnd", "BitwiseOr", "BitwiseXor")
def bits(g: Drawing, op: str) -> None:
    x = g.tensor(WHOLE)
    g.add(op, [x, g.broadcastable(x)])


@recipe("BitShift")
def shift(g: Drawing, op: str) -> None:
    x = g.tensor(("uint8", "uint32", "uint64"))
    by = g.broadcastable(x, low=0, high=2)
    g.add(op, [x, by], direction=g.one_of("LEFT", "RIGHT"))


@recipe("Where")
def where(g: Drawing, op: str) -> None:
    x = g.tensor((*FLOATS, *INTS, "uint8", "bool"))
    shape = g.shape_of(g.broadcastable(x))
    g.add(op, [g.tensor(("bool",), shape=shape), x, g.broadcastable(x)])


@recipe("Cast")
def cast(g: Drawing, op: str) -> None:
    x, kind = g.tensor(ANY), g.one_of(*ANY)
    _require_fit(g, x, kind)
    g.add(op, [x], to=helper.np_dtype_to_tensor_dtype(np.dtype(kind)))


@recipe("CastLike")
def cast_like(g: Drawing, op: str) -> None:
    x, like = g.tensor(ANY), g.tensor(ANY)
    _require_fit(g, x, g.kind_of(like))
    g.add(op, [x, like])


def _require_fit(g: Drawing, name: str, kind: str) -> None:
    """What becomes of a float beyond an integer's range is nobody's promise."""
    array = g.tensors[name].array
    if g.kind_of(name) not in FLOATS or kind in FLOATS or kind == "bool" or not array.size:
        return
    array = array.astype(np.float64)  # a limit may be beyond what its own kind holds
    limits = np.iinfo(kind)
    if not (np.isfinite(array).all() and limits.min <= array.min() and array.max() <= limits.max):
        raise RefusedError


@recipe("QuantizeLinear")
def quantize(g: Drawing, op: str) -> None:
    x = g.tensor(("float32",), (1, 2, 3, 4))
    scale, zero, attributes = _scale(g, x, g.one_of(*BYTES))
    g.add(op, [x, scale, zero], **attributes)


@recipe("DequantizeLinear")
def dequantize(g: Drawing, op: str) -> None:
    x = g.tensor(BYTES, (1, 2, 3, 4))
    scale, zero, attributes = _scale(g, x, g.kind_of(x))
    g.add(op, [x, scale, zero], **attributes)


def _scale(g: Drawing, x: str, kind: str) -> tuple[str, str, dict[str, Any]]:
    """Return scale and zero point for all of *x*, or for each place of an axis."""
    if g.opset < 13 or g.chance():
        shape: Shape = ()
        attributes: dict[str, Any] = {}
    else:
        axis = g.axis(g.rank_of(x))
        shape, attributes = (g.shape_of(x)[axis],), {"axis": axis}
    scale = g.fresh(g.array("float32", shape, 0.02, 0.2))
    return scale, g.fresh(g.array(kind, shape)), attributes
