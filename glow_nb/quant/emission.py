"""Writing down which values are integers: a graph with ``quantize`` and ``dequantize`` nodes.

Operators stay what they are, on floats; those that read a value as integers read it through
``dequantize(quantize(value))``, and weights are integers after a ``dequantize_linear``. Passes
make operators on integers of it, as they do of a model that comes so from elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from glow_nb.base.schema import map_operands
from glow_nb.base.types import Array, ElementKind
from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Constant, Function, Node, Value, producer_of
from glow_nb.hlir.save import Save
from glow_nb.quant.operators import PRODUCTS, is_mover
from glow_nb.quant.placement import Placement
from glow_nb.quant.schemas import Encoding, Schema
from glow_nb.quant.weights import least_scales, quantize_bias, quantize_weights


class Emission:
    """Makes a function whose values are integers where a placement says so."""

    def __init__(
        self,
        function: Function,
        placement: Placement,
        encodings: Mapping[Value, Encoding],
        weights: tuple[ElementKind, Schema],
        *,
        per_channel: bool,
    ) -> None:
        """Prepare what :meth:`function` returns.

        Args:
            function: An optimized graph.
            placement: Which of its values are quantized.
            encodings: Scale and offset of each of these.
            weights: The kind and the schema of weights.
            per_channel: Weights have a scale for each channel of the result.
        """
        names = (value.name for value in (*function.storage, *function.nodes))
        self._builder = Builder(function.name, names)
        self._function, self._placement, self._encodings = function, placement, encodings
        self._weights, self._per_channel = weights, per_channel
        self._renewed: dict[Value, Value] = {}
        self._read: dict[Value, Value] = {}  # each quantized value as integers, dequantized

    def function(self) -> Function:
        """Return the function."""
        for placeholder in self._function.inputs:
            self._emit_quantized(placeholder, placeholder)
        for node in self._function.nodes:
            self._emit(node)
        function = self._function.with_nodes(self._builder.nodes)
        return replace(function, origins={**function.origins, **self._builder.origins})

    def _emit(self, node: Node) -> None:
        read = set(self._placement.reads.get(node, ()))
        parameters = self._parameters(node) if read and type(node) in PRODUCTS else {}

        def operand(value: Value) -> Value:
            if value in read or (value in self._read and self._is_exact(value)):
                return self._read[value]
            return parameters.get(value) or self._renewed.get(value, value)

        renewed = map_operands(node, operand)
        self._builder.nodes.append(renewed)
        if isinstance(node, Save):
            return
        for old, new in zip(node.results, renewed.results, strict=True):
            self._renewed[old] = new
            self._emit_quantized(old, new)

    def _emit_quantized(self, old: Value, new: Value) -> None:
        """Emit what reads *new*, which stands for *old*, as integers, if these are asked for."""
        if old not in self._placement.roots:
            return
        encoding = self._encodings[old]
        stored = self._builder.emit(
            ops.Quantize(new, kind=encoding.kind, scale=encoding.scale, offset=encoding.offset),
            name=f"{old.name}_quantize",
        )
        self._read[old] = self._builder.emit(ops.Dequantize(stored), name=f"{old.name}_dequantize")

    def _is_exact(self, value: Value) -> bool:
        """Return whether *value* is moved integers: all read it so, and nothing is rounded."""
        node = producer_of(value)
        return node in self._placement.reads and is_mover(node)

    def _parameters(self, node: Node) -> dict[Value, Value]:
        """Emit weights and bias of a product as integers; return what stands for each."""
        product, (kind, schema) = PRODUCTS[type(node)], self._weights
        weights = getattr(node, product.weights)
        input = self._encodings[getattr(node, product.input)]
        bias = getattr(node, product.bias) if product.bias else None
        is_split = isinstance(node, ops.TransposedConvolution) and node.group > 1
        axis = product.channel_axis if self._per_channel and not is_split else None
        least = least_scales(np.zeros(1) if bias is None else bias.array, input)
        found = quantize_weights(weights.array, axis, kind, schema, least)
        offset = np.full((1,) * weights.type.rank, found.offset, kind.dtype)
        replaced = {weights: self._linear(weights, found.stored, found.scale, offset)}
        if bias is not None:
            stored, scale = quantize_bias(bias.array, input, found.scale)
            replaced[bias] = self._linear(bias, stored, scale, np.zeros(1, np.int32))
        return replaced

    def _linear(self, constant: Constant, stored: Array, scale: Array, offset: Array) -> Value:
        """Emit *constant* as the integers *stored* with their scales and offsets."""
        builder, name = self._builder, constant.name
        operands = (
            builder.constant(f"{name}_stored", stored),
            builder.constant(f"{name}_scale", scale, is_weight=False),
            builder.constant(f"{name}_offset", offset, is_weight=False),
        )
        return builder.emit(ops.DequantizeLinear(*operands), name=f"{name}_dequantize")
