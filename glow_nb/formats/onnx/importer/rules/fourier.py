"""Discrete Fourier transforms, of whole sequences and of windows that slide over them."""

from __future__ import annotations

import numpy as np

from glow_nb.base.size import same, symbols_of
from glow_nb.formats.onnx.importer.context import Context
from glow_nb.formats.onnx.importer.node import OnnxNode
from glow_nb.formats.onnx.importer.registry import onnx_op
from glow_nb.hlir import ops
from glow_nb.hlir.graph import Value
from glow_nb.hlir.ops.counting import counting

_MAX_LENGTH = 1 << 20


@onnx_op("DFT", since=17)
def fourier_by_attribute(ctx: Context, node: OnnxNode) -> Value:
    """Transform along ``axis``, an attribute up to opset 19."""
    return _transformed(ctx, node, node.integer("axis"))


@onnx_op("DFT", since=20)
def fourier(ctx: Context, node: OnnxNode) -> Value:
    """Transform along an axis given as an operand, by default the last but one."""
    operand = node.optional(2)
    axis = -2 if operand is None else ctx.known_integer(operand, "'axis'")
    return _transformed(ctx, node, axis)


def _transformed(ctx: Context, node: OnnxNode, axis: int) -> Value:
    x, rank = node.operand(0), node.operand(0).type.rank
    axis = ctx.axis(axis, rank)
    if axis == rank - 1:
        raise ctx.wrong(f"axis {axis} of input {x} is the last one, that of the parts of a number")
    is_inverse, is_onesided = node.flag("inverse"), node.flag("onesided")
    parts = (1, 2) if not is_onesided else (2,) if is_inverse else (1,)
    if x.type.shape[-1] not in parts:
        form = f"inverse={int(is_inverse)} and onesided={int(is_onesided)}"
        raise ctx.wrong(f"input {x} must end in {' or '.join(map(str, parts))} with {form}")
    given, length = node.optional(1), x.type.shape[axis]
    if is_inverse and is_onesided:
        length = 2 * (length - 1)
    if given is not None:
        length = ctx.known_integer(given, "'dft_length'")
    last = [i for i in range(rank - 1) if i != axis]
    moved = ctx.transpose(x, (*last, axis, rank - 1))
    result = transform(ctx, moved, length, is_inverse=is_inverse, is_onesided=is_onesided)
    back = [*last, axis, rank - 1]
    return ctx.transpose(result, [back.index(i) for i in range(rank)])


def transform(
    ctx: Context, x: Value, length: int, *, is_inverse: bool = False, is_onesided: bool = False
) -> Value:
    """Return the transform along the last axis but one of ``[..., n, 1 or 2]``.

    The sequence is cut or filled with zeros to the *length* that is transformed. Half of a
    symmetric spectrum, ``is_onesided``, is what a transform gives, and what an inverse takes to
    give real numbers.
    """
    if not 0 < length <= _MAX_LENGTH:
        raise ctx.unsupported(f"length {length}; lengths of 1 to {_MAX_LENGTH} are possible")
    *outer, size, _ = x.type.shape
    wanted = length // 2 + 1 if is_inverse and is_onesided else length
    if size != wanted:
        ends = (*(0,) * len(outer), wanted - size, 0)
        x = ctx.emit(ops.Pad(x, pads=(*(0,) * x.type.rank, *ends)))
    ctx.spend(16 * length * x.type.kind.size_bytes)
    transform = ops.FourierTransform(x, length=length, inverse=is_inverse, onesided=is_onesided)
    return ctx.emit(transform)


def _places(ctx: Context, size: int, step: int, frames: int, length: int) -> Value:
    """Return where the elements of each frame are in a signal of this *size*."""
    inner = np.arange(length, dtype=np.int64)[None, :]
    if symbols_of(frames):
        begins = ctx.reshape(counting(ctx, frames), (frames, 1))
        distance = ctx.number(begins.type, step)
        return ctx.emit(ops.Add(ctx.emit(ops.Mul(begins, distance)), ctx.constant(inner)))
    ctx.spend(8 * frames * length)
    step = min(step, size)  # there is one frame then
    return ctx.constant(np.arange(frames, dtype=np.int64)[:, None] * step + inner)


@onnx_op("STFT", since=17)
def short_time_fourier(ctx: Context, node: OnnxNode) -> Value:
    """Transforms of windows that slide over ``[batch, n, 1]``: ``[batch, frames, results, 2]``."""
    signal, window = node.operand(0), node.optional(2)
    shape = signal.type.shape
    if signal.type.rank not in (2, 3) or (signal.type.rank == 3 and not same(shape[2], 1)):
        raise ctx.unsupported(f"a signal of shape {list(shape)}; [batch, n, 1] is possible")
    step = ctx.known_integer(node.operand(1), "'frame_step'")
    given = node.optional(3)
    length = window.type.size if window is not None else 0
    if given is not None:
        length = ctx.known_integer(given, "'frame_length'")
    if step < 1 or not 0 < length <= shape[1]:
        raise ctx.wrong(f"steps of {step} and frames of {length} do not fit {signal}")
    frames = (shape[1] - length) // step + 1
    flat = ctx.reshape(signal, shape[:2])
    framed = ctx.emit(ops.Gather(flat, _places(ctx, shape[1], step, frames, length), axis=1))
    if window is not None:
        if window.type.shape != (length,):
            raise ctx.wrong(f"window {window} must have the length of a frame, {length}")
        framed = ctx.emit(ops.Mul(framed, ctx.with_rank(window, 3)))
    framed = ctx.reshape(framed, (shape[0], frames, length, 1))
    return transform(ctx, framed, length, is_onesided=node.flag("onesided"))
