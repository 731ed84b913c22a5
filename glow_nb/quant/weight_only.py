"""Weight-only quantization to low-bit integers: activations stay float; no calibration is needed.

A run then reads fewer bytes, so products with few rows, which are memory-bound, become faster. Each
weight is rounded to the nearest multiple of the scale of its block: neighbouring rows of a column.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from typing_extensions import override

from glow_nb.base.arguments import as_integer, described
from glow_nb.base.conversion import converted
from glow_nb.base.errors import OptionError
from glow_nb.base.types import Array, ElementKind
from glow_nb.hlir.graph import Constant, Function, Node, Value
from glow_nb.hlir.kept_names import kept_by_name
from glow_nb.hlir.ops import Add, DequantizingMatMul, FullyConnected, MatMul, Reshape
from glow_nb.hlir.rewrite import Replacement, Rewriter, rewrite
from glow_nb.network.compilation import optimize
from glow_nb.network.source import Trained, as_source
from glow_nb.quant.placement import Kept
from glow_nb.quant.schemas import FEW_BITS, kind_named

DEFAULT_BLOCK = 32
BITS_OF_BYTE = 8


@dataclass(frozen=True)
class WeightConversion:
    """A network with quantized weights, and the weights that stay float; printed as a report.

    Attributes:
        function: The network.
        quantized: The number of products with integer weights.
        kept: The products whose weights stay floats, and why.
        float_bytes: Size of the rounded weights as floats.
        packed_bytes: Their size as packed integers, with scales.
    """

    function: Function
    quantized: int
    kept: tuple[Kept, ...]
    float_bytes: int
    packed_bytes: int

    @override
    def __str__(self) -> str:
        first = (
            f"{self.function.name}: weights of {self.quantized} products: {self.float_bytes} bytes "
            f"of floats, {self.packed_bytes} bytes of integers and scales"
        )
        kept = (f"float {each.opcode} {each.name}: {each.reason}" for each in self.kept)
        return "\n".join([first, *kept])


def convert_weights(
    model: Trained,
    *,
    weights: str | ElementKind = "int4",
    block: int = DEFAULT_BLOCK,
    keep: Iterable[str] = (),
) -> WeightConversion:
    """Return *model* with the constant weights of its matrix products as low-bit integers.

    The integers are symmetric around 0 and rounded to the nearest. :func:`glow_nb.compile` keeps
    them packed, and :func:`glow_nb.export_onnx` writes ``DequantizeLinear`` with blocks.

    Args:
        model: A model, as for :func:`glow_nb.load`; all sizes must be known.
        weights: The integers: "int4" or "int8".
        block: Neighbouring rows of a column that share a scale.
        keep: Names, or globs, of nodes whose weights stay floats.

    Raises:
        OptionError: An argument has no meaning.
        GlowError: As :func:`glow_nb.load`.
    """
    kind = kind_named("weights", weights, FEW_BITS)
    size = as_integer(block)
    if size is None or size < 1:
        raise OptionError(f"block={described(block)}: give a number of rows, 1 or more")
    source = as_source(model)
    function = optimize(source.open_graph or source.function(()))
    rounding = _Rounding(kind, size, kept_by_name(function, keep))
    made = rewrite(function, rounding.rule)
    return WeightConversion(
        made, rounding.count, tuple(rounding.kept), rounding.float_bytes, rounding.packed_bytes
    )


class _Rounding:
    """Rounds the weights of products, and counts them."""

    def __init__(self, kind: ElementKind, block: int, reasons: dict[str, str]) -> None:
        self._kind, self._block, self._reasons = kind, block, reasons
        self.kept: list[Kept] = []
        self._made: dict[Value, tuple[Constant, Constant]] = {}
        self.count = self.float_bytes = self.packed_bytes = 0

    def rule(self, node: Node, rewriter: Rewriter) -> Replacement:
        """Replace a product of floats with constant weights."""
        if not isinstance(node, MatMul | FullyConnected) or not node.type.kind.is_float:
            return None
        lhs, weights = node.factors
        reason = self._reason(node, weights)
        if reason:
            self.kept.append(Kept(node.name, node.opcode, reason))
            return None
        assert isinstance(weights, Constant)
        product = self._product(lhs, weights, rewriter)
        if isinstance(node, MatMul):
            return product
        row = rewriter.emit(Reshape(node.bias, (1, *node.bias.type.shape)))
        return rewriter.emit(Add(product, row))

    def _reason(self, node: Node, weights: Value) -> str:
        """Return why the weights of *node* stay floats; empty if they do not."""
        if node.name in self._reasons:
            return self._reasons[node.name]
        if node.predicate is not None:
            return "it has a predicate"
        if not isinstance(weights, Constant):
            return "its weights are not constant"
        if node.type.kind is not ElementKind.FLOAT32 or weights.type.rank != 2:
            return f"its weights are {weights.type}, not a matrix of float32"
        return "" if np.isfinite(weights.array).all() else "a weight is not finite"

    def _product(self, lhs: Value, weights: Constant, rewriter: Rewriter) -> Value:
        block = max(1, min(self._block, weights.type.shape[0]))
        self.count += 1
        if weights not in self._made:  # several products may read them
            stored, scale = rounded_by_blocks(weights.array, self._kind, block)
            self.float_bytes += weights.type.size_bytes
            self.packed_bytes += -(-stored.size * self._kind.bits // BITS_OF_BYTE) + scale.nbytes
            self._made[weights] = (
                rewriter.constant(f"{weights.name}_stored", stored),
                rewriter.constant(f"{weights.name}_scale", scale, is_weight=False),
            )
        return rewriter.emit(DequantizingMatMul(lhs, *self._made[weights], None, block=block))


def rounded_by_blocks(weights: Array, kind: ElementKind, block: int) -> tuple[Array, Array]:
    """Return float32 *weights* ``[K, N]`` as integers of *kind*, and scales ``[K / block, N]``.

    The largest weight of a block is the greatest integer, or its negative; a block of zeros has the
    scale 1.
    """
    starts = np.arange(0, weights.shape[0], block)
    reach = np.maximum.reduceat(np.abs(weights), starts, axis=0) if starts.size else weights[:0]
    scale = reach / np.float32(kind.limits[1])
    scale[scale == 0] = 1  # also of numbers so small that their scale is
    steps = np.rint(weights / scale.repeat(block, axis=0)[: weights.shape[0]])
    greatest = kind.limits[1]  # more steps are in numbers so small that their scale is rounded
    return converted(np.clip(steps, -greatest, greatest).astype(np.int32), kind), scale
