"""The layers of a graph of float32 that multiply 16-bit numbers, and why others do not."""

from __future__ import annotations

from collections.abc import Collection
from math import prod

from glow_nb.base.precision import LayerPrecision
from glow_nb.base.quantities import count_of
from glow_nb.base.size import hinted
from glow_nb.base.types import ElementKind
from glow_nb.hlir import ops
from glow_nb.hlir.graph import Constant, Function, Node, Value
from glow_nb.hlir.kept_names import kept_by_name
from glow_nb.hlir.ops.attention import by_heads
from glow_nb.hlir.ops.families import NARROW_FLOATS
from glow_nb.hlir.ops.reduction import CumSum

FACTORS: dict[type[Node], tuple[str, ...]] = {
    ops.Attention: ("query", "key", "value"),
    ops.Convolution: ("input", "filter"),
    ops.ConvolutionFilterGradient: ("input", "gradient"),
    ops.FullyConnected: ("input", "weights"),
    ops.MatMul: ("lhs", "rhs"),
    ops.TransposedConvolution: ("input", "filter"),
}
"""The operands of products that are multiplied."""

FEWEST_PRODUCTS = 8
"""Products of a sum that are worth rounding their factors. Sums of fewer, such as positions times
frequencies, cost no more than that, and may need all digits."""

FEWEST_QUERIES = 8
"""Rows of queries that read a key from which on attention multiplies 16-bit floats. Of fewer, as in
a step of a decoder, it waits for keys and values of a cache: rounding these first takes longer."""

FEWEST_CHANNELS = 8
"""Channels of a group that are multiplied by a dot instruction. Convolutions of smaller groups, as
depthwise ones, take the lanes of vectors for channels: there is no faster instruction for these
with 16 bits, and rounding their few products is what costs most accuracy."""

_OF_INTEGERS: dict[type[Node], str] = {
    ops.DequantizingMatMul: "weights",
    ops.QuantizedConvolution: "filter",
    ops.QuantizedFullyConnected: "weights",
    ops.QuantizedMatMul: "rhs",
    ops.QuantizedTransposedConvolution: "filter",
}
"""Products of integers that stand for floats, and the operand that is their right factor."""

_RIGHT_FACTORS = _OF_INTEGERS | {product: names[1] for product, names in FACTORS.items()}
"""The operand of each product whose kind is the one that it multiplies."""

REASONS: tuple[tuple[tuple[type[Node], ...], str], ...] = (
    ((ops.Softmax, ops.LogSoftmax), "a softmax adds up exponentials"),
    ((ops.BatchNormalization, ops.BatchNormTraining), "a normalization subtracts like numbers"),
    ((ops.LayerNormalization, ops.GroupNormalization), "a normalization subtracts like numbers"),
    ((ops.LocalResponseNormalization, ops.Moments), "a normalization adds up squares"),
    ((ops.ReduceSum, ops.ReduceMean, ops.AvgPool), "sums of terms gain nothing"),
    ((ops.ReduceProd, CumSum), "it has no sums of products"),
    ((ops.RecurrentLayer, ops.Recurrence), "errors of a step go into all steps after it"),
    ((ops.FourierTransform, ops.Determinant), "its products are of numbers of very unlike size"),
)
"""Why operators that are no products, but add up, compute in float32."""


def precisions_of(
    function: Function,
    keep: Collection[str] = (),
    *,
    kind: ElementKind = ElementKind.BFLOAT16,
    must_fit: bool = True,
) -> tuple[LayerPrecision, ...]:
    """Return what ``lower_precision`` makes of each layer of *function* that adds up numbers.

    Args:
        function: The graph that the pass gets.
        keep: Names, or globs, of layers that stay float32.
        kind: The kind that operands are rounded to.
        must_fit: Whether a pattern that fits no layer is an error.

    Raises:
        OptionError: A pattern of *keep* fits no layer.
    """
    kept = kept_by_name(function, keep, must_fit=must_fit)
    found = []
    for node in function.nodes:
        reason = _reason(node, kept)
        if reason is not None:
            computed = kind if not reason else _kind_of(node)
            name = function.origins_of(node)[-1]
            found.append(LayerPrecision(name, node.opcode, computed.value, reason))
    return tuple(found)


def lowered_products(
    function: Function, keep: Collection[str], *, must_fit: bool = True
) -> frozenset[str]:
    """Return the names of the products of *function* whose operands are rounded."""
    kept = kept_by_name(function, keep, must_fit=must_fit)
    return frozenset(node.name for node in function.nodes if _reason(node, kept) == "")


def _kind_of(node: Node) -> ElementKind:
    """Return the kind of what *node* multiplies, or adds up."""
    name = _RIGHT_FACTORS.get(type(node))
    multiplied: Value = node if name is None else getattr(node, name)
    return multiplied.type.kind


def _reason(node: Node, kept: dict[str, str]) -> str | None:
    """Return why *node* is not lowered: "" if it is, None if it has nothing to add up."""
    if type(node) in FACTORS:
        return _reason_of_product(node, kept)
    if type(node) in _OF_INTEGERS:
        return "its operands are integers"
    if not node.type.kind.is_float:
        return None
    return next((reason for classes, reason in REASONS if isinstance(node, classes)), None)


def _reason_of_product(node: Node, kept: dict[str, str]) -> str | None:
    factors = [getattr(node, name) for name in FACTORS[type(node)]]
    if all(isinstance(factor, Constant) for factor in factors):
        return None  # computed when the network is compiled
    kind = _kind_of(node)
    if not kind.is_float:
        return "its operands are integers"
    if kind in NARROW_FLOATS:
        return f"it is of {kind.value} in the model"
    if kind is not ElementKind.FLOAT32:
        return f"it is of {kind.value} in the model, and rounds no more than that"
    if node.name in kept:
        return kept[node.name]
    return _reason_of_sums(node)


def _reason_of_sums(node: Node) -> str:
    """Return why the sums of a product *node* are not worth fewer bits, "" if they are."""
    match node:
        case ops.Convolution() | ops.TransposedConvolution():
            channels, depth = node.input.type.shape[-1], node.type.shape[-1]
            inside, outside = hinted(channels) // node.group, hinted(depth) // node.group
            terms, fewest = inside * prod(node.kernel), min(inside, outside)
        case ops.ConvolutionFilterGradient():
            terms, fewest = hinted(prod(node.gradient.type.shape[:-1])), hinted(node.type.shape[-1])
        case ops.Attention():
            rows = _queries_of_a_key(node)
            if rows < FEWEST_QUERIES:
                return f"{count_of(rows, 'row')} of queries a key: it waits for memory"
            terms, fewest = hinted(node.query.type.shape[-1]), FEWEST_CHANNELS
        case ops.FullyConnected() | ops.MatMul():
            terms, fewest = hinted(node.factors[0].type.shape[-1]), FEWEST_CHANNELS
        case _:
            return ""
    if getattr(node, "group", 1) > 1 and fewest < FEWEST_CHANNELS:
        return f"groups of {count_of(fewest, 'channel')} fill no dot product"
    return (
        f"sums of {count_of(terms, 'product')} are not worth it" if terms < FEWEST_PRODUCTS else ""
    )


def _queries_of_a_key(node: ops.Attention) -> int:
    """Return how many rows of queries, those of all heads that share it, read one key."""
    _, heads, queries, _ = map(hinted, by_heads(node.query.type.shape, node.query_layout))
    groups = hinted(by_heads(node.key.type.shape, node.key_layout)[1])
    return queries * heads // max(1, groups)
