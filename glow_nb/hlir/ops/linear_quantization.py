"""From real numbers to integers and back, on plain types: scale and offset are tensors.

``real = (stored - offset) * scale``. This is what operators on quantized types are lowered to: each
is a formula of one element, which runs in the kernel of the product before or after it. Scale and
offset have the rank of the input and broadcast to it: there is one number, one a channel, or one a
block, and a run may compute them. Arithmetic is that of float32, each operation rounded.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from typing_extensions import override

from glow_nb.base.conversion import in_float32, rounded
from glow_nb.base.types import Array, ElementKind, TensorType
from glow_nb.hlir.graph import Node, Value, define_node
from glow_nb.hlir.known import array_of
from glow_nb.hlir.ops.families import Kinds, require_kind

FLOAT32, INT32 = ElementKind.FLOAT32, ElementKind.INT32
NARROW: Kinds = frozenset(
    ElementKind(name) for name in "int8 uint8 int16 uint16 int4 uint4 int2 uint2".split()
)
"""The kinds that numbers are rounded to."""

STORED: Kinds = NARROW | {INT32}
"""The kinds of integers that stand for real numbers; those of int32 are sums and biases."""


@define_node("quantize_linear", scalar="saturate(rint(input / scale) + convert_float32(offset))")
class QuantizeLinear(Node):
    """Round to integers of *kind*: ``saturate(rint(input[i] / scale[i]) + offset[i])``.

    Halves go to the even number, what is outside the kind to the nearest in it, and NaN to the
    least. ``input`` and ``scale`` are of float32, ``offset`` is of *kind*.

    Attributes:
        kind: The kind of the result, an integer.
    """

    input: Value
    scale: Value
    offset: Value
    kind: ElementKind

    @override
    def infer_type(self) -> TensorType:
        _require_input(self, FLOAT32)
        result = _rounded_type(self, "scale", self.scale)
        require_usable_scales(self, "scale", self.scale)
        return result

    @override
    def evaluate(self, input: Array, scale: Array, offset: Array) -> Array:
        with np.errstate(all="ignore"):
            return rounded(input / scale, offset, self.kind)


@define_node(
    "requantize",
    scalar="saturate(rint(convert_float32(input) * multiplier) + convert_float32(offset))",
)
class Requantize(Node):
    """Scale sums of products: ``saturate(rint(float32(input[i]) * multiplier[i]) + offset[i])``.

    Halves go to the even number, what is outside *kind* to the nearest in it, and NaN to the least.
    ``input`` is of int32, ``multiplier`` of float32, ``offset`` of *kind*.

    Attributes:
        kind: The kind of the result, an integer.
    """

    input: Value
    multiplier: Value
    offset: Value
    kind: ElementKind

    @override
    def infer_type(self) -> TensorType:
        _require_input(self, INT32)
        return _rounded_type(self, "multiplier", self.multiplier)

    @override
    def evaluate(self, input: Array, multiplier: Array, offset: Array) -> Array:
        with np.errstate(all="ignore"):
            return rounded(input.astype(np.float32) * multiplier, offset, self.kind)


@define_node(
    "dequantize_linear",
    scalar="(convert_float32(input) - convert_float32(offset)) * convert_float32(scale)",
)
class DequantizeLinear(Node):
    """Return the real numbers that integers represent: ``(input[i] - offset[i]) * scale[i]``.

    It is computed in float32 and rounded to the kind of ``scale``, a float of at most 32 bits;
    ``offset`` is of the kind of ``input``.
    """

    scale_kinds: ClassVar[Kinds] = frozenset({FLOAT32, ElementKind.FLOAT16, ElementKind.BFLOAT16})
    input: Value
    scale: Value
    offset: Value

    @override
    def infer_type(self) -> TensorType:
        type = self.input.type
        require_kind(self, "input", type, STORED)
        require_kind(self, "scale", self.scale.type, self.scale_kinds)
        require_beside(self, "scale", self.scale, self.scale.type.kind)
        require_beside(self, "offset", self.offset, type.kind)
        require_usable_scales(self, "scale", self.scale)
        return type.with_kind(self.scale.type.kind)

    @override
    def evaluate(self, input: Array, scale: Array, offset: Array) -> Array:
        with np.errstate(all="ignore"):
            distance = in_float32(input) - in_float32(offset)
            return (distance * in_float32(scale)).astype(scale.dtype)


def _require_input(node: QuantizeLinear | Requantize, kind: ElementKind) -> None:
    wanted = TensorType(kind, node.input.type.shape)
    node.require(
        node.input.type == wanted, f"'input' is {node.input.type}, but must be {wanted}; convert it"
    )


def _rounded_type(node: QuantizeLinear | Requantize, name: str, factor: Value) -> TensorType:
    """Return the type of a result of ``kind``, scaled by the operand *factor* called *name*."""
    require_result_kind(node, node.kind, NARROW)
    require_beside(node, name, factor, FLOAT32)
    require_beside(node, "offset", node.offset, node.kind)
    return node.input.type.with_kind(node.kind)


def require_result_kind(node: Node, kind: ElementKind, kinds: Kinds) -> None:
    """Raise VerifyError unless the attribute *kind* is one of *kinds*."""
    names = ", ".join(k.value for k in ElementKind if k in kinds)
    node.require(kind in kinds, f"kind {kind.value} must be one of {names}")


def require_beside(node: Any, name: str, operand: Value, kind: ElementKind) -> None:
    """Raise VerifyError unless *operand* is plain, of *kind*, and broadcasts to ``node.input``."""
    type, beside = node.input.type, operand.type
    wanted = TensorType(kind, beside.shape)
    node.require(beside == wanted, f"'{name}' is {beside}, but must be {wanted}; convert it")
    node.require(
        type.rank == beside.rank
        and all(n in (1, m) for m, n in zip(type.shape, beside.shape, strict=True)),
        f"'{name}' is {beside}, which does not broadcast to 'input' {type}; ranks must be equal, "
        "and in each dimension the size 1 or equal",
    )


def require_usable_scales(node: Node, name: str, scale: Value) -> None:
    """Raise VerifyError if a scale that is known now is zero, negative or not finite."""
    array = array_of(scale)
    if array is None or not array.size:
        return
    numbers = array.astype(np.float32).ravel()
    wrong = numbers[~((numbers > 0) & np.isfinite(numbers))]
    node.require(
        not wrong.size,
        f"'{name}' {scale} holds {wrong[:1].tolist()}; every scale must be positive and finite",
    )
