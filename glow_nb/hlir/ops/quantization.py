"""Quantized types: how tensors get one, lose it, and change from one to another (paper 4.1).

A quantized type says which real numbers its integers stand for: ``real = (stored - offset) *
scale``. Passes see it and change it; ``lower`` takes it away
(:mod:`glow_nb.hlir.strip_quantized_types`): what is left are the operators of
:mod:`glow_nb.hlir.ops.linear_quantization` on plain integers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from typing_extensions import override

from glow_nb.base.conversion import dequantized, quantized
from glow_nb.base.costs import Cost
from glow_nb.base.types import QUANTIZED, Array, ElementKind, TensorType, quantization_problem
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Constant, Node, Value, define_node
from glow_nb.hlir.ops.elementwise import as_kind
from glow_nb.hlir.ops.families import Kinds, fitted, require_kind
from glow_nb.hlir.ops.linear_quantization import (
    FLOAT32,
    INT32,
    DequantizeLinear,
    QuantizeLinear,
    require_result_kind,
)
from glow_nb.hlir.rewrite import Rewriter
from glow_nb.hlir.rules import LOWERINGS, lowers

ACTIVATIONS: Kinds = QUANTIZED - {INT32}
"""The kinds that operators round to: every one of their numbers is one of float32, too."""

REALS: Kinds = frozenset({FLOAT32, ElementKind.FLOAT16, ElementKind.BFLOAT16})
"""The kinds of the real numbers that quantized ones are made of, and become."""

BYTES: Kinds = frozenset({ElementKind.INT8, ElementKind.UINT8})

BYTE_SHIFT = 128
"""What is added to a number of int8 to make one of uint8."""


@define_node("quantize", data_parallel=True)
class Quantize(Node):
    """Round real numbers to integers: ``saturate(rint(input[i] / scale) + offset)`` (paper 4.1).

    The division is that of float32, halves go to the even number, NaN to the least of *kind*.

    Attributes:
        kind: The kind of the result, an integer.
        scale: The real number of one step of the integers.
        offset: The integer that stands for 0.
    """

    input: Value
    kind: ElementKind
    scale: float
    offset: int

    @override
    def infer_type(self) -> TensorType:
        require_kind(self, "input", self.input.type, REALS)
        return quantized_result(self, self.input.type.shape)

    @override
    def evaluate(self, input: Array) -> Array:
        return quantized(input, self.type)


@define_node("dequantize", data_parallel=True)
class Dequantize(Node):
    """Return the real numbers: ``(input[i] - offset) * scale``, in float32, as floats of *kind*.

    Attributes:
        kind: The kind of the result, a float.
    """

    input: Value
    kind: ElementKind = FLOAT32

    @override
    def infer_type(self) -> TensorType:
        require_quantized(self, "input", self.input.type, QUANTIZED)
        require_result_kind(self, self.kind, REALS)
        return self.input.type.with_kind(self.kind)

    @override
    def evaluate(self, input: Array) -> Array:
        return fitted(dequantized(input, self.input.type), self.type)


@define_node("rescale", data_parallel=True)
class Rescale(Node):
    """Change scale, offset and kind: dequantize, then quantize (paper 4.3).

    Attributes:
        kind: The kind of the result, an integer.
        scale: The scale of the result.
        offset: The offset of the result.
    """

    input: Value
    kind: ElementKind
    scale: float
    offset: int

    @override
    def infer_type(self) -> TensorType:
        require_quantized(self, "input", self.input.type, QUANTIZED)
        return quantized_result(self, self.input.type.shape)

    @override
    def evaluate(self, input: Array) -> Array:
        return quantized(dequantized(input, self.input.type), self.type)


@define_node("stored")
class Stored(Node):
    """Take the integers of a quantized type as plain ones; nothing moves."""

    input: Value

    @override
    def infer_type(self) -> TensorType:
        require_quantized(self, "input", self.input.type, QUANTIZED)
        return self.input.type.stored

    @override
    def evaluate(self, input: Array) -> Array:
        return fitted(input, self.type)


@define_node("as_quantized")
class AsQuantized(Node):
    """Let plain integers represent ``(input[i] - offset) * scale``; nothing moves.

    Attributes:
        scale: The real number of one step of the integers.
        offset: The integer that stands for 0.
    """

    input: Value
    scale: float
    offset: int

    @override
    def infer_type(self) -> TensorType:
        type = self.input.type
        require_kind(self, "input", type, QUANTIZED)
        return quantized_type(self, type.kind, type.shape, self.scale, self.offset)

    @override
    def evaluate(self, input: Array) -> Array:
        return fitted(input, self.type)


@define_node("int_lookup_table", scalar="look_up(table, input)", data_parallel=False)
class IntLookupTable(Node):
    """Look bytes up: ``result[i] = table[input[i] - lowest]``, *lowest* that of their kind.

    Any function of one byte is such a table (paper 4.2). ``table`` has 256 elements, whose kind is
    that of the result. If ``input`` has a quantized type and the table holds integers, these are
    quantized by *scale* and *offset*; in any other case the result is plain, the scale 1 and the
    offset 0.

    Attributes:
        scale: The scale of the result's quantized type; 1 for a plain result.
        offset: The offset of the result's quantized type; 0 for a plain result.
    """

    input: Value
    table: Value
    scale: float = 1.0
    offset: int = 0

    @property
    def makes_quantized(self) -> bool:
        """Return whether the result has a quantized type."""
        return self.input.type.is_quantized and not self.table.type.kind.is_float

    @override
    def infer_type(self) -> TensorType:
        input, table = self.input.type, self.table.type
        require_kind(self, "input", input.stored, BYTES)
        wanted = TensorType(table.kind, (256,))
        self.require(table == wanted, f"'table' is {table}, but must be {wanted}")
        if self.makes_quantized:
            return quantized_type(self, table.kind, input.shape, self.scale, self.offset)
        require_no_quantization(self, table.kind)
        return input.with_kind(table.kind)

    @override
    def evaluate(self, input: Array, table: Array) -> Array:
        least = ElementKind.of(input.dtype).limits[0]
        return fitted(table[input.astype(np.int64) - least], self.type)

    @override
    def cost(self) -> Cost:
        return Cost(others=self.type.size)


def quantized_type(
    node: Node, kind: ElementKind, shape: tuple[int, ...], scale: float, offset: int
) -> TensorType:
    """Return the quantized type; raise VerifyError about *node* if there is no such one."""
    problem = quantization_problem(kind, scale, offset)
    node.require(not problem, problem)
    return TensorType(kind, shape, scale, offset)


def quantized_result(node: Any, shape: tuple[int, ...], reals: Kinds = frozenset()) -> TensorType:
    """Return the type of a result of *shape* by the attributes ``kind``, ``scale``, ``offset``.

    It is plain for a kind of *reals*.
    """
    require_result_kind(node, node.kind, ACTIVATIONS | reals)
    if node.kind in reals:
        require_no_quantization(node, node.kind)
        return TensorType(node.kind, shape)
    return quantized_type(node, node.kind, shape, node.scale, node.offset)


def require_no_quantization(node: Any, kind: ElementKind) -> None:
    """Raise VerifyError unless ``scale`` is 1 and ``offset`` 0: the result is plain, of *kind*."""
    node.require(
        node.scale == 1 and node.offset == 0,
        f"scale {node.scale} and offset {node.offset} mean nothing to a plain result of "
        f"{kind.value}; give 1.0 and 0",
    )


def require_quantized(node: Node, operand: str, type: TensorType, kinds: Kinds) -> None:
    """Raise VerifyError unless *type*, that of the operand so called, is quantized, of *kinds*."""
    node.require(
        type.is_quantized, f"'{operand}' is {type}, but must have a quantized type; quantize it"
    )
    require_kind(node, operand, type.stored, kinds)


def number(builder: Builder, value: float, kind: ElementKind, rank: int, name: str) -> Constant:
    """Return a constant of one element that goes with tensors of *rank*."""
    return builder.constant(name, np.full((1,) * rank, value, kind.dtype), is_weight=False)


def emit_quantized(builder: Builder, real: Value, type: TensorType) -> Value:
    """Emit *real* numbers, of float32, quantized to *type*."""
    integers = QuantizeLinear(real, *_parameters(builder, type), kind=type.kind)
    return as_type(builder, builder.emit(integers), type)


def emit_real(builder: Builder, value: Value) -> Value:
    """Emit the real numbers, of float32, that *value* of a quantized type represents."""
    stored = builder.emit(Stored(value))
    return builder.emit(DequantizeLinear(stored, *_parameters(builder, value.type)))


def as_type(builder: Builder, integers: Value, type: TensorType) -> Value:
    """Emit *integers* as a tensor of the quantized *type*."""
    return builder.emit(AsQuantized(integers, *type.quantization))


def _parameters(builder: Builder, type: TensorType) -> tuple[Constant, Constant]:
    """Return scale and offset of a quantized *type* as constants beside a tensor of it."""
    scale, offset = type.quantization
    return (
        number(builder, scale, FLOAT32, type.rank, "scale"),
        number(builder, offset, type.kind, type.rank, "offset"),
    )


@lowers(Quantize)
def lower_quantize(node: Quantize, rewriter: Rewriter) -> Value:
    """Express it by its formula with scale and offset as constants."""
    return emit_quantized(rewriter, as_kind(rewriter, node.input, FLOAT32), node.type)


@lowers(Dequantize)
def lower_dequantize(node: Dequantize, rewriter: Rewriter) -> Value:
    """Express it by its formula with scale and offset as constants."""
    return as_kind(rewriter, emit_real(rewriter, node.input), node.kind)


@lowers(Rescale)
def lower_rescale(node: Rescale, rewriter: Rewriter) -> Value:
    """Express it as the real numbers, quantized again."""
    return emit_quantized(rewriter, emit_real(rewriter, node.input), node.type)


@LOWERINGS.register(Stored, AsQuantized)
def lower_with_types(node: Stored | AsQuantized, rewriter: Rewriter) -> None:
    """Decline: it goes with the quantized types, once no operator computes on these."""
    return


@lowers(IntLookupTable)
def lower_int_lookup_table(node: IntLookupTable, rewriter: Rewriter) -> Value | None:
    """Express it as a table of plain bytes; decline for one."""
    if not node.input.type.is_quantized:
        return None
    plain = rewriter.emit(IntLookupTable(rewriter.emit(Stored(node.input)), node.table))
    return as_type(rewriter, plain, node.type) if node.makes_quantized else plain
