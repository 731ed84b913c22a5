"""Features for classical models and for sound: of domain ``ai.onnx.ml``, and mel filters."""

from __future__ import annotations

import numpy as np

from glow_nb.base.types import Array
from glow_nb.formats.onnx.importer.context import Context
from glow_nb.formats.onnx.importer.node import OnnxNode
from glow_nb.formats.onnx.importer.registry import onnx_op
from glow_nb.formats.onnx.importer.rules.indexing import check_indices
from glow_nb.hlir import ops
from glow_nb.hlir.graph import Value

_DOMAIN = "ai.onnx.ml"


@onnx_op("Binarizer", since=1, domain=_DOMAIN)
def binarizer(ctx: Context, node: OnnxNode) -> Value:
    """1 where the input is above ``threshold``, else 0."""
    x = node.operand(0)
    is_above = ctx.term(x) > node.number("threshold")
    return ctx.convert(is_above.value, x.type.kind)


@onnx_op("ArrayFeatureExtractor", since=1, domain=_DOMAIN)
def array_feature_extractor(ctx: Context, node: OnnxNode) -> Value:
    """Chosen columns: a gather along the last axis; of a vector they are one row."""
    x, indices = node.operand(0), node.operand(1)
    if not x.type.rank:
        raise ctx.wrong(f"input {x} must have an axis")
    last = x.type.rank - 1
    check_indices(ctx, indices, x.type.shape[last])
    chosen = ctx.emit(ops.Gather(x, ctx.reshape(indices, (indices.type.size,)), axis=last))
    return ctx.with_rank(chosen, max(x.type.rank, 2))


@onnx_op("MelWeightMatrix", since=17)
def mel_weight_matrix(ctx: Context, node: OnnxNode) -> Value:
    """Triangles over the bins of a spectrum, ``[bins, mel bins]``, evenly spaced in mel."""
    names = "num_mel_bins dft_length sample_rate lower_edge_hertz upper_edge_hertz".split()
    bins, length, rate = (
        ctx.known_integer(node.operand(i), repr(name)) for i, name in enumerate(names[:3])
    )
    edges = [ctx.known(node.operand(i), repr(names[i])) for i in (3, 4)]
    if any(edge.size != 1 for edge in edges):
        raise ctx.wrong(f"{' and '.join(names[3:])} must be one number each")
    low, high = (float(edge.item()) for edge in edges)
    if min(bins, length, rate) < 1 or not 0 <= low < high <= rate / 2:
        raise ctx.wrong(
            f"{bins} mel bins of {length} samples at {rate} Hz, {low} to {high} Hz, cannot "
            "be; counts must be positive and the edges ordered, at most half the rate"
        )
    kind = ctx.kind(node.integer("output_datatype"))
    ctx.spend(8 * (length // 2 + 1) * bins)
    return ctx.constant(_mel_filters(bins, length, rate, (low, high)).astype(kind.dtype))


def _mel_filters(bins: int, length: int, rate: int, edges: tuple[float, float]) -> Array:
    """Return the triangles; a mel is ``2595 * log10(1 + hertz / 700)``."""
    low, high = (2595 * np.log10(1 + edge / 700) for edge in edges)
    # As the definition has it: bins + 2 corners, but steps of the range divided by as many.
    mels = low + np.arange(bins + 2) * (high - low) / (bins + 2)
    hertz = 700 * (10 ** (mels / 2595) - 1)
    corners = ((length + 1) * hertz // rate).astype(np.int64)
    places = np.arange(length // 2 + 1)
    filters = np.zeros((len(places), bins))
    for number in range(bins):
        left, middle, right = corners[number : number + 3]
        rising = (places - left) / (middle - left) if middle > left else places == middle
        falling = (right - places) / (right - middle) if right > middle else 0
        is_left = (left <= places) & (places <= middle)
        is_right = (middle <= places) & (places < right)
        filters[:, number] = np.where(is_right, falling, np.where(is_left, rising, 0))
    return filters
