"""Operators that mean the same in ONNX and here: a row serves the importer and the exporter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from glow_nb.hlir import ops
from glow_nb.hlir.graph import Node


@dataclass(frozen=True)
class Same:
    """An operator of ONNX and one of the graph that mean the same, operand for operand.

    Attributes:
        name: The name in ONNX.
        node_class: The class of the node.
        attributes: ONNX's name of each attribute. An ``axis`` of ONNX may count from the end.
        since: The operator set from which on they are the same.
    """

    name: str
    node_class: type[Node]
    attributes: Mapping[str, str] = field(default_factory=dict)
    since: int = 7


def _alike(*names: str) -> dict[str, str]:
    return {name: name for name in names}


_SAME_NAME = (
    "Abs Acos Acosh Add And Asin Asinh Atan Atanh BitwiseAnd BitwiseOr BitwiseXor Ceil Cos Cosh "
    "Div Equal Exp Floor Greater HardSwish IsNaN Less Log Mul Neg Not Or Reciprocal Relu Round "
    "Sigmoid Sign Sin Sinh Softplus Sqrt Sub Tan Tanh Xor"
).split()

_POSITION = {"axis": "axis", "keep_dims": "keepdims", "select_last": "select_last_index"}

SAME: tuple[Same, ...] = (
    *(Same(name, getattr(ops, name)) for name in _SAME_NAME),
    Same("Det", ops.Determinant),
    Same("GreaterOrEqual", ops.GreaterEqual),
    Same("LessOrEqual", ops.LessEqual),
    Same("Where", ops.Select),
    Same("ArgMax", ops.ArgMax, _POSITION),
    Same("ArgMin", ops.ArgMin, _POSITION),
    Same("Elu", ops.Elu, _alike("alpha")),
    Same("Gelu", ops.Gelu, _alike("approximate")),
    Same("HardSigmoid", ops.HardSigmoid, _alike("alpha", "beta")),
    Same("IsInf", ops.IsInf, {"positive": "detect_positive", "negative": "detect_negative"}),
    Same("LeakyRelu", ops.LeakyRelu, _alike("alpha")),
    Same("LogSoftmax", ops.LogSoftmax, _alike("axis"), since=13),
    Same("Mod", ops.Modulo, _alike("fmod")),
    Same("Softmax", ops.Softmax, _alike("axis"), since=13),
    Same("Swish", ops.Swish, _alike("alpha")),
)
