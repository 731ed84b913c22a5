"""Operators whose result is known at import."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from glow_nb.base.types import Array, TensorType
from glow_nb.formats.onnx.importer.context import Context
from glow_nb.formats.onnx.importer.decided_operands import decided_range, sizes_from
from glow_nb.formats.onnx.importer.dependence import is_of_a_run
from glow_nb.formats.onnx.importer.node import OnnxNode
from glow_nb.formats.onnx.importer.open_numbers import OpenNumbers, numbers_of, raise_open
from glow_nb.formats.onnx.importer.ratio import (
    Number,
    Ratio,
    as_ratio,
    divided,
    subtracted,
    whole_numbers,
)
from glow_nb.formats.onnx.importer.registry import onnx_op
from glow_nb.hlir import ops
from glow_nb.hlir.graph import Constant, Value


@onnx_op("Constant")
def constant(ctx: Context, node: OnnxNode) -> Value:
    """A tensor, a number or a list of numbers given as an attribute."""
    if len(node.attributes) != 1:
        raise ctx.wrong(f"it must have one attribute, it has {sorted(node.attributes)}")
    (name,) = node.attributes
    if name == "value":
        return ctx.of_numbers(ctx.numbers(node.message(name).t), ctx.stem)
    return ctx.constant(_constant(ctx, node, name), ctx.stem)


def _constant(ctx: Context, node: OnnxNode, name: str) -> Array:
    if name == "sparse_value":
        return ctx.dense(node.message(name).sparse_tensor)
    if name == "value_float":
        return np.array(node.number(name), np.float32)
    if name == "value_floats":
        return np.array(node.numbers(name), np.float32)
    if name == "value_int":
        return np.array(node.integer(name), np.int64)
    if name == "value_ints":
        return np.array(node.integers(name), np.int64)
    raise ctx.unsupported(f"attribute {name}")


@onnx_op("ConstantOfShape")
def constant_of_shape(ctx: Context, node: OnnxNode) -> Value:
    """A tensor full of one number, by default float32 zeros."""
    shape = sizes_from(ctx, node.operand(0), "the shape")
    number: Array = np.zeros((), np.float32)
    if node.has("value"):
        number = ctx.of_numbers(ctx.numbers(node.message("value").t), ctx.stem).array
    if number.size != 1 or any(size < 0 for size in shape):
        raise ctx.wrong(f"shape {list(shape)} must not be negative, its value be one number")
    type = TensorType(TensorType.of(number).kind, shape)
    if type.is_open:
        return ctx.broadcast(ctx.constant(number.reshape(()), ctx.stem), shape)
    ctx.spend(type.size_bytes)
    return ctx.constant(np.broadcast_to(number.reshape(()), shape), ctx.stem)


@onnx_op("Range")
def arithmetic_range(ctx: Context, node: OnnxNode) -> Value:
    """``start, start + delta, ...`` before ``limit``."""
    names = ("'start'", "'limit'", "'delta'")
    if all(isinstance(value, OpenNumbers | Constant) for value in node.operands):
        if any(isinstance(value, OpenNumbers) for value in node.operands):
            found = ctx.for_all_runs(partial(_open_range, ctx, node))
            return decided_range(ctx, node.operands) if found is None else found
    elif ctx.decides and any(map(is_of_a_run, node.operands)):
        return decided_range(ctx, node.operands)
    arrays = [ctx.known(node.operand(i), name) for i, name in enumerate(names)]
    if any(array.size != 1 for array in arrays):
        raise ctx.wrong("start, limit and delta must be one number each")
    start, limit, delta = (array.reshape(()) for array in arrays)
    dtype = start.dtype
    first, last, step = (array.item() for array in (start, limit, delta))
    if not step or not all(math.isfinite(number) for number in (first, last, step)):
        raise ctx.wrong(f"a range from {first} to {last} in steps of {step} has no length")
    count = max(math.ceil((last - first) / step), 0)
    ctx.spend(count * dtype.itemsize)
    steps = np.arange(count)
    if dtype.kind in "iu":
        return ctx.constant(start + steps.astype(dtype) * delta.astype(dtype))
    return ctx.constant((np.float64(first) + steps * np.float64(step)).astype(dtype))


def _open_range(ctx: Context, node: OnnxNode) -> Value:
    """Return a range whose ends are open sizes: a running sum of its steps."""
    vector = node.operand(0).type.with_shape((1,))
    first, last, step = (_one_number(ctx, node.operand(i)) for i in range(3))
    if step in (0, Ratio(0)):
        raise ctx.wrong("a range in steps of 0 has no length")
    length = subtracted(as_ratio(last), as_ratio(first))
    count = length and divided(length, as_ratio(step))
    if count is None:
        raise_open(*whole_numbers((first, last, step)))
    shape = (count.ceil if count.numerator > 0 else 0,)
    steps = ctx.broadcast(ctx.as_computed(ctx.sized([step], vector)), shape)
    sums = ctx.emit(ops.CumSum(steps, axis=0, exclusive=True))
    return ops.Add(sums, ctx.sized([first], vector))


def _one_number(ctx: Context, value: Value) -> Number:
    """Return the one number of a *value*, which may be made of open sizes."""
    numbers = numbers_of(value)
    if numbers is None:
        what = "'start', 'limit' and 'delta', where one is an open size,"
        raise ctx.unsupported(f"{ctx.known(value, what)}: {what} must have few binary places")
    if len(numbers) != 1:
        raise ctx.wrong("start, limit and delta must be one number each")
    return numbers[0]
