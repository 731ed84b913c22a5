"""Let activations that are multiplied be unsigned bytes: x86 multiplies these by signed ones."""

from __future__ import annotations

import dataclasses
from typing import Any

from glow_nb.base.schema import map_operands, operands_of
from glow_nb.base.types import ElementKind
from glow_nb.hlir.graph import Function, Node, Value, producer_of
from glow_nb.hlir.ops import (
    Dequantize,
    IntLookupTable,
    Quantize,
    QuantizedAveragePool,
    QuantizedConvolution,
    QuantizedFullyConnected,
    QuantizedMatMul,
    QuantizedTransposedConvolution,
    Rescale,
)
from glow_nb.hlir.ops.quantization import BYTE_SHIFT
from glow_nb.hlir.ops.quantized_elementwise import QuantizedBinary
from glow_nb.hlir.passes import register_pass

_PRODUCTS: tuple[type[Node], ...] = (
    *(QuantizedConvolution, QuantizedTransposedConvolution),
    *(QuantizedMatMul, QuantizedFullyConnected),
)
_ROUNDING: tuple[type[Node], ...] = (
    *(*_PRODUCTS, Quantize, Rescale, QuantizedBinary, QuantizedAveragePool),
)
"""Operators that make integers of any kind; those of them that read some take any kind, too."""

_READING: tuple[type[Node], ...] = (*_ROUNDING, Dequantize, IntLookupTable)


@register_pass
def unsigned_activations(function: Function) -> Function:
    """Give int8 activations that products read the kind uint8, and an offset larger by 128.

    ::

        %q = quantize(%x) {kind = int8, offset = -3}    ->    ... {kind = uint8, offset = 125}
        %y = quantized_mat_mul(%q, %w, %s, %o)

    They stand for the same numbers. The kind of a tensor goes with those that elements move to or
    come from; all of them stay where one is an input, an output, a constant or plain elsewhere.
    """
    groups = _Groups(function)
    changing = groups.wanted - groups.kept
    if not changing:
        return function
    renewed: dict[Value, Value] = {}
    nodes: list[Node] = []
    for node in function.nodes:
        current: Any = map_operands(node, lambda value: renewed.get(value, value))
        if isinstance(node, _ROUNDING) and groups.of(node) in changing:
            current = dataclasses.replace(
                current, kind=ElementKind.UINT8, offset=current.offset + BYTE_SHIFT
            )
        nodes.append(current)
        if current is not node:
            renewed.update(zip(node.results, current.results, strict=True))
    return function.with_nodes(nodes)


class _Groups:
    """Tensors of quantized int8 that must have one kind, since elements move between them.

    Attributes:
        wanted: Groups that a product reads, each by one of its tensors.
        kept: Groups whose kind something asks for.
    """

    def __init__(self, function: Function) -> None:
        """Group the tensors of *function*."""
        self._parents: dict[Value, Value] = {}
        for node in function.nodes:
            if node.type_transparent:
                self._join([value for value in _touched(node) if _is_signed(value)])
        self.wanted: set[Value] = set()
        self.kept: set[Value] = set()
        for node in function.nodes:
            self._ask(node)

    def of(self, value: Value) -> Value:
        """Return the tensor that represents the group of *value*."""
        while value in self._parents:
            value = self._parents[value]
        return value

    def _join(self, values: list[Value]) -> None:
        for value in values[1:]:
            one, other = self.of(values[0]), self.of(value)
            if one is not other:
                self._parents[other] = one

    def _ask(self, node: Node) -> None:
        """Find out which kinds *node* needs."""
        read = {self.of(value) for value in operands_of(node) if _is_signed(value)}
        made = {self.of(value) for value in node.results if _is_signed(value)}
        if isinstance(node, _PRODUCTS):
            self.wanted |= read
        elif not (node.type_transparent or isinstance(node, _READING)):
            self.kept |= read
        if not (node.type_transparent or isinstance(node, _ROUNDING)):
            self.kept |= made
        self.kept |= {
            self.of(v) for v in operands_of(node) if _is_signed(v) and not _is_computed(v)
        }


def _touched(node: Node) -> tuple[Value, ...]:
    return (*operands_of(node), *node.results)


def _is_signed(value: Value) -> bool:
    return value.type.is_quantized and value.type.kind is ElementKind.INT8


def _is_computed(value: Value) -> bool:
    return producer_of(value) is not None
