"""The nodes after a dequantized float: integers, their scales, and moves between.

And what passes do with quantized types again and again.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np

from glow_nb.base.conversion import quantized
from glow_nb.base.types import Array, ElementKind
from glow_nb.hlir.graph import Node, Value
from glow_nb.hlir.known import array_of, is_known
from glow_nb.hlir.ops import (
    AsQuantized,
    Clip,
    Dequantize,
    DequantizeLinear,
    QuantizedConvolution,
    QuantizedFullyConnected,
    QuantizedMatMul,
    QuantizedTransposedConvolution,
    Reshape,
    Slice,
    Stored,
    Transpose,
)
from glow_nb.hlir.optimize.ranges import Range
from glow_nb.hlir.permutation import shape_before
from glow_nb.hlir.rewrite import Rewriter

PRODUCTS = (
    QuantizedConvolution,
    QuantizedFullyConnected,
    QuantizedMatMul,
    QuantizedTransposedConvolution,
)
"""The products of quantized tensors and plain weights."""


@dataclass(frozen=True)
class Moved:
    """A value and the nodes, transposes and reshapes, that move it about before it is read."""

    source: Value
    moves: tuple[Node, ...]

    def emit(self, rewriter: Rewriter) -> Value:
        """Emit the same moves of the source."""
        value = self.source
        for move in self.moves:
            value = rewriter.emit(dataclasses.replace(move, input=value, name=""))  # type: ignore[call-arg]
        return value


@dataclass(frozen=True)
class Weights:
    """Integers that are known, ``real = (stored - offset) * scale``.

    Attributes:
        stored: The integers.
        scale: One float32, or one for each place of some axes, of the rank of the moved integers.
        offset: One integer, or as many, alike.
    """

    stored: Moved
    scale: Array
    offset: Array

    @property
    def kind(self) -> ElementKind:
        """The kind of the integers."""
        return self.stored.source.type.kind

    def array(self) -> Array:
        """Return the integers, moved."""
        array = array_of(self.stored.source)
        assert array is not None
        for move in self.stored.moves:
            array = move.evaluate(array)
        return array

    def real(self) -> Array:
        """Return the numbers that they represent, in float64."""
        return np.asarray((self.array() - self.offset.astype(np.float64)) * self.scale)


def quantized_behind(value: Value) -> Moved | None:
    """Return the tensor of a quantized type that *value* is the dequantization of."""
    node, moves = followed(value, Transpose, Reshape)
    match node:
        case Dequantize(input=source, kind=ElementKind.FLOAT32, predicate=None):
            return Moved(source, moves)
    return None


def weights_behind(value: Value) -> Weights | None:
    """Return the integers that *value* is the dequantization of, if they and all scales are known.

    A reshape may lie between only if it neither cuts nor joins an axis along which scales vary.
    """
    node, moves = followed(value, Transpose, Reshape)
    match node:
        case Dequantize(input=AsQuantized(input=stored) as source, kind=ElementKind.FLOAT32):
            one = (1,) * stored.type.rank
            numbers = [np.full(one, source.scale, np.float32), np.full(one, source.offset)]
        case DequantizeLinear(input=stored, scale=factors, offset=zeros) if (
            is_known(factors) and is_known(zeros) and factors.type.kind is ElementKind.FLOAT32
        ):
            arrays = (array_of(factors), array_of(zeros))
            numbers = [array for array in arrays if array is not None]
        case _:
            return None
    if not is_known(stored) or node.predicate is not None:
        return None
    for move in moves:
        beside = [_beside(move, array) for array in numbers]
        numbers = [array for array in beside if array is not None]
        if len(numbers) < len(beside):
            return None
    return Weights(Moved(stored, moves), numbers[0], numbers[1].astype(np.int32))


def _beside(move: Node, numbers: Array) -> Array | None:
    """Return *numbers*, which broadcast to what *move* reads, so that they do to what it makes."""
    if isinstance(move, Transpose):
        return numbers.transpose(move.permutation)
    assert isinstance(move, Reshape)
    shape = shape_before(numbers.shape, move.input.type.shape, move.type.shape)
    return None if shape is None else numbers.reshape(shape)


def followed(
    value: Value, *moves: type[Transpose | Reshape | Slice]
) -> tuple[Value, tuple[Node, ...]]:
    """Return where *value* comes from, and the nodes of these kinds of *moves* between."""
    found: list[Node] = []
    while isinstance(value, moves) and value.predicate is None:
        found.append(value)
        value = value.input
    return value, tuple(reversed(found))


def quantization_of(value: Value) -> dict[str, Any]:
    """Return kind, scale and offset of the quantized type of *value*, as nodes take them."""
    scale, offset = value.type.quantization
    return {"kind": value.type.kind, "scale": scale, "offset": offset}


def emit_bounded(value: Value, bounds: Range, rewriter: Rewriter) -> Value:
    """Emit *value*, of a quantized type, with the numbers that it represents clamped to *bounds*.

    Nothing is emitted if the type has no numbers outside.
    """
    low, high = map(int, quantized(np.array(bounds, np.float32), value.type.with_shape((2,))))
    if (low, high) == value.type.kind.limits:
        return value
    clip = rewriter.emit(Clip(rewriter.emit(Stored(value)), minimum=low, maximum=high))
    return rewriter.emit(AsQuantized(clip, *value.type.quantization))


def vector_along(axis: int, numbers: Array) -> Array | None:
    """Return *numbers* as a vector, if there is one or if they vary along *axis* alone."""
    sizes = [size for place, size in enumerate(numbers.shape) if place != axis]
    return numbers.reshape(-1) if set(sizes) <= {1} else None
