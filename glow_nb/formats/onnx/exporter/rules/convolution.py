"""Convolutions: ONNX has the channels first, and no integers but those of 8 bits."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

from glow_nb.formats.onnx.exporter.registry import composes, exports_channels_first
from glow_nb.formats.onnx.exporter.rules.matrix import multiplies_alike, multiplies_bytes
from glow_nb.formats.onnx.exporter.windows import onnx_window, windows_of
from glow_nb.formats.onnx.exporter.writer import Writer
from glow_nb.hlir import ops
from glow_nb.hlir.graph import Value
from glow_nb.hlir.known import is_uniform
from glow_nb.hlir.rewrite import Replacement, Rewriter


def _has_convolution(node: ops.Convolution) -> bool:
    floats = multiplies_alike(node) and node.type.kind.is_float
    pads_with_zeros = node.pad_value == 0 or not node.is_padded
    return (floats or multiplies_bytes(node)) and node.input.type.size > 0 and pads_with_zeros


@exports_channels_first(ops.Convolution, "input", "filter", says=_has_convolution)
def convolution(ctx: Writer, node: Any) -> Value:
    """Sums of products under a window."""
    attributes = {**onnx_window(node), "group": node.group}
    bias = None if is_uniform(node.bias, 0) else node.bias
    if node.type.kind.is_float:
        return ctx.node(node, "Conv", node.input, node.filter, bias, **attributes)
    sums = ctx.node(node, "ConvInteger", node.input, node.filter, **attributes)
    if bias is None:
        return sums
    shape = (1, bias.type.size, *(1,) * len(node.kernel))
    return ctx.emit(ops.Add(sums, ctx.emit(ops.Reshape(bias, shape))))


@composes(ops.Convolution)
def other_convolution(node: ops.Convolution, rewriter: Rewriter) -> Replacement:
    """A wide one has its operands as float32; one of integers becomes a product of matrices."""
    if not node.wide:
        return _convolution_of_integers(node, rewriter)
    input, filter = (rewriter.emit(ops.ConvertTo(v, node.type.kind)) for v in node.factors)
    return rewriter.emit(replace(node, input=input, filter=filter, wide=False, name=""))


def _convolution_of_integers(node: ops.Convolution, rewriter: Rewriter) -> Replacement:
    """The cells under each window become the rows of a matrix that the filter is multiplied by."""
    emit, kind = rewriter.emit, node.type.kind
    batch, *out, depth = node.type.shape
    bias = emit(ops.Reshape(node.bias, (1,) * (len(out) + 1) + (depth,)))
    if not node.input.type.size and (not node.pad_value or 0 in (batch, node.input.type.shape[-1])):
        return emit(ops.Broadcast(bias, node.type.shape))
    group, inner = node.group, node.filter.type.shape[-1]
    rows, taps = batch * prod(out), prod(node.kernel)
    wide = emit(ops.ConvertTo(node.input, kind))
    cells = windows_of(node, wide, node.pad_value, rewriter)
    shaped = tuple(emit(ops.Reshape(cell, (rows, 1, group, inner))) for cell in cells)
    windows = emit(ops.Transpose(emit(ops.Concat(shaped, axis=1)), (2, 0, 1, 3)))
    left = emit(ops.Reshape(windows, (group, rows, taps * inner)))
    filter = emit(ops.ConvertTo(node.filter, kind))
    columns = emit(ops.Reshape(filter, (group, depth // group, taps * inner)))
    product = emit(ops.MatMul(left, emit(ops.Transpose(columns, (0, 2, 1)))))
    sums = emit(ops.Reshape(emit(ops.Transpose(product, (1, 0, 2))), node.type.shape))
    return emit(ops.Add(sums, bias))


def _has_transposed(node: ops.TransposedConvolution) -> bool:
    """Return whether there is something to spread, and a float holds every number of its kind."""
    kind = node.type.kind
    is_held = kind.is_float or kind.bits <= 32
    return is_held and not node.wide and node.input.type.size > 0 and node.type.size > 0


@exports_channels_first(ops.TransposedConvolution, "input", "filter", says=_has_transposed)
def transposed_convolution(ctx: Writer, node: Any) -> Value:
    """The gradient of a convolution for its input; the size of the result decides the rest."""
    rank = len(node.size)
    steps = zip(
        *(node.size, node.input.type.shape[2:], node.kernel, node.stride, node.dilation),
        *(node.pads[:rank], node.pads[rank:]),
        strict=True,
    )
    more = [n + b + e - s * (m - 1) - d * (k - 1) - 1 for n, m, k, s, d, b, e in steps]
    attributes = {**onnx_window(node), "group": node.group, "output_padding": more}
    return ctx.node(node, "ConvTranspose", node.input, node.filter, **attributes)
