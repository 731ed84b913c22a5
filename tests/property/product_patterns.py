"""Patterns around products: scales, rows, narrow matrices, attention, activations written out."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from glow_nb.hlir import ops
from glow_nb.hlir.graph import Value
from tests.property.patterns import number, small

if TYPE_CHECKING:
    from tests.property.random_graphs import GraphMaker


def scaled_products(maker: GraphMaker) -> None:
    """A product whose operands and result are scaled, with reshapes and transposes in between."""
    candidates = [v for v in maker.pool if v.type.rank >= 2 and 0 < v.type.size <= 512]
    if not candidates:
        return
    emit, value = maker.builder.emit, maker.pick(candidates)
    rank = value.type.rank
    lhs = scaled(maker, value)
    order = (*range(rank - 2), rank - 1, rank - 2)
    rhs: Value = emit(ops.Transpose(scaled(maker, value), permutation=order))
    if maker.integer(0, 1):
        rows = math.prod(value.type.shape[:-1])
        lhs = emit(ops.Reshape(lhs, (rows, value.type.shape[-1])))
        weights = maker.numbers(value.type.shape[-1], maker.integer(1, 4))
        rhs = maker.builder.constant("m", weights)
    maker.add(ops.Tanh(scaled(maker, emit(ops.MatMul(lhs, rhs)))), exact=False)


def scaled(maker: GraphMaker, value: Value) -> Value:
    """Return *value* times a number, or divided by one, or as it is."""
    choice, rank = maker.integer(0, 2), value.type.rank
    if choice == 0:
        return value
    factor = number(maker, (0.25, -0.5, 0.75, 0.0)[maker.integer(0, 3)], rank)
    if choice == 1:
        pair = (value, factor) if maker.integer(0, 1) else (factor, value)
        return maker.builder.emit(ops.Mul(*pair))
    return maker.builder.emit(ops.Div(value, number(maker, (8.0, 3.0)[maker.integer(0, 1)], rank)))


def turned_products(maker: GraphMaker) -> None:
    """A product both of whose operands are transposed."""
    candidates = [v for v in maker.pool if v.type.rank == 2 and v.type.size <= 256]
    if not candidates:
        return
    emit, value = maker.builder.emit, maker.pick(candidates)
    lhs = emit(ops.Transpose(value, permutation=(1, 0)))
    matrix = maker.builder.constant("m", maker.numbers(3, value.type.shape[1]))
    other = emit(ops.MatMul(matrix, emit(ops.Tanh(lhs))))
    rhs = emit(ops.Transpose(other, permutation=(1, 0)))
    maker.add(ops.Tanh(emit(ops.MatMul(lhs, rhs))), exact=False)


def one_row(maker: GraphMaker) -> None:
    """One row, or every other one, of a product, normalization, softmax or sum of them."""
    candidates = [v for v in maker.pool if v.type.rank >= 2 and v.type.shape[-2] >= 2]
    if not candidates:
        return
    emit, value = maker.builder.emit, maker.pick(candidates)
    rank, width = value.type.rank, value.type.shape[-1]
    result = value
    for _ in range(maker.integer(1, 3)):
        choice = maker.integer(0, 4)
        if choice == 0:
            matrix = maker.builder.constant("m", maker.numbers(width, width))
            result = emit(ops.Tanh(emit(ops.MatMul(result, matrix))))
        elif choice == 1:
            scale = maker.builder.constant("s", maker.numbers(width))
            result = emit(ops.LayerNormalization(result, scale, None, axis=rank - 1, epsilon=0.5))
        elif choice == 2:
            result = emit(ops.Softmax(result, axis=rank - 1))
        elif choice == 3:
            result = emit(ops.Add(result, value))
        else:
            flat = emit(ops.Reshape(result, (*value.type.shape, 1)))
            transposed = emit(ops.Transpose(flat, (*range(rank - 1), rank, rank - 1)))
            result = emit(ops.Reshape(transposed, value.type.shape))
    axis = maker.integer(0, rank - 1)
    starts, stops, steps = [0] * rank, list(value.type.shape), [1] * rank
    starts[axis] = maker.integer(0, stops[axis] - 1)
    if maker.integer(0, 1):
        stops[axis] = starts[axis] + 1
    else:
        steps[axis] = 2
    maker.add(ops.Slice(result, tuple(starts), tuple(stops), tuple(steps)), exact=False)


def narrow_products(maker: GraphMaker) -> None:
    """Products and dense layers of one operand with narrow matrices."""
    candidates = [v for v in maker.pool if v.type.rank == 2 and 0 < v.type.size <= 256]
    if not candidates:
        return
    emit, x = maker.builder.emit, maker.pick(candidates)
    repeats = -(-16 // x.type.shape[1])
    x = emit(ops.Tile(x, repeats=(1, repeats)))
    for _ in range(maker.integer(2, 3)):
        width = maker.integer(1, 5)
        weights = maker.builder.constant("m", maker.numbers(x.type.shape[1], width))
        if maker.integer(0, 2):
            maker.add(ops.MatMul(x, weights), exact=False)
        else:
            bias = maker.builder.constant("b", maker.numbers(width))
            maker.add(ops.FullyConnected(x, weights, bias), exact=False)


def small_windows(maker: GraphMaker) -> None:
    """A window that is larger than what it looks at, but for padding, or exactly as large."""
    candidates = [v for v in maker.pool if v.type.rank == 4 and 0 < v.type.size <= 256]
    if not candidates:
        return
    emit, value = maker.builder.emit, maker.pick(candidates)
    _, height, width, channels = value.type.shape
    value = emit(ops.Slice(value, (0,) * 4, (1, min(height, 2), min(width, 2), channels), (1,) * 4))
    kernel = tuple(maker.integer(1, 4) for _ in range(2))
    dilation = tuple(maker.integer(1, 2) for _ in range(2))
    pads = tuple(maker.integer(0, 3) for _ in range(4))
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    sizes = [value.type.shape[1 + i] + pads[i] + pads[2 + i] for i in range(2)]
    if any(size < need for size, need in zip(sizes, reach, strict=True)):
        return
    stride = (maker.integer(1, 3), maker.integer(1, 2))
    filter = maker.builder.constant("w", maker.numbers(3, *kernel, channels))
    bias = maker.builder.constant("b", maker.numbers(3))
    maker.add(
        ops.Convolution(
            value,
            filter,
            bias,
            kernel=kernel,
            stride=stride,
            pads=pads,
            dilation=dilation,
            group=1,
        ),
        exact=False,
    )


def cut_padding(maker: GraphMaker) -> None:
    """A slice of a padded tensor or of a part of a split; a pad that cuts."""
    candidates = [v for v in maker.pool if v.type.rank and min(v.type.shape) >= 1]
    if not candidates:
        return
    emit, value = maker.builder.emit, maker.pick(candidates)
    exact, rank = value in maker.exact, value.type.rank
    if maker.integer(0, 1):
        low = [maker.integer(-1 if n > 2 else 0, 2) for n in value.type.shape]
        high = [maker.integer(-1 if n > 2 else 0, 2) for n in value.type.shape]
        value = emit(ops.Pad(value, pads=(*low, *high), mode="constant", value=0.5))
    else:
        axis = maker.integer(0, rank - 1)
        first = maker.integer(0, value.type.shape[axis] - 1)
        sizes = (first, value.type.shape[axis] - first)
        value = emit(ops.Split(value, axis=axis, sizes=sizes)).results[1]
    starts = tuple(maker.integer(0, n - 1) for n in value.type.shape)
    stops = tuple(
        maker.integer(start + 1, n) for start, n in zip(starts, value.type.shape, strict=True)
    )
    maker.add(ops.Slice(value, starts, stops, (1,) * rank), exact=exact)


def written_activations(maker: GraphMaker) -> None:
    """Swish, hard swish, hard sigmoid, leaky rectifier and the logarithm of a softmax."""
    x = small(maker, 1)
    if x is None:
        return
    emit, rank = maker.builder.emit, x.type.rank
    choice = maker.integer(0, 3)
    if choice == 0:
        inner = emit(ops.Mul(x, number(maker, 1.5, rank))) if maker.integer(0, 1) else x
        gate: Value = emit(ops.Sigmoid(inner))
        maker.add(ops.Mul(*((x, gate) if maker.integer(0, 1) else (gate, x))), exact=False)
    elif choice == 1:
        line = emit(ops.Add(x, number(maker, 3.0, rank)))
        gate = emit(ops.Clip(line, minimum=0.0, maximum=6.0))
        product = emit(ops.Mul(x, gate)) if maker.integer(0, 1) else gate
        maker.add(ops.Div(product, number(maker, 6.0, rank)), exact=False)
    elif choice == 2:
        zero = number(maker, 0.0, rank)
        comparison = (ops.Greater, ops.GreaterEqual, ops.Less, ops.LessEqual)[maker.integer(0, 3)]
        condition: Value = emit(comparison(*((x, zero) if maker.integer(0, 1) else (zero, x))))
        if maker.integer(0, 1):
            condition = emit(ops.Not(condition))
        other = emit(ops.Mul(x, number(maker, -0.5, rank))) if maker.integer(0, 1) else zero
        maker.add(
            ops.Select(condition, *((x, other) if maker.integer(0, 1) else (other, x))), exact=False
        )
    else:
        axis = maker.integer(0, rank - 1)
        if maker.integer(0, 1):
            x = emit(ops.Sub(x, emit(ops.ReduceMax(x, axes=(axis,), keep_dims=True))))
        total = emit(ops.ReduceSum(emit(ops.Exp(x)), axes=(axis,), keep_dims=True))
        maker.add(ops.Sub(x, emit(ops.Log(total))), exact=False)


def attention(maker: GraphMaker) -> None:
    """Two heads of attention over a sequence, as exporters write them."""
    candidates = [v for v in maker.pool if v.type.rank >= 2 and 0 < v.type.size <= 256]
    if not candidates:
        return
    emit, value = maker.builder.emit, maker.pick(candidates)
    length, width = math.prod(value.type.shape[:-1]), value.type.shape[-1]
    x = emit(ops.Tanh(emit(ops.Reshape(value, (1, length, width)))))
    heads = []
    for order in ((0, 2, 1, 3), (0, 2, 3, 1), (0, 2, 1, 3)):
        weights = maker.builder.constant("m", maker.numbers(width, 6))
        bias = maker.builder.constant("b", maker.numbers(1, 1, 6))
        dense = emit(ops.Add(emit(ops.MatMul(x, weights)), bias))
        apart = emit(ops.Reshape(dense, (1, length, 2, 3)))
        heads.append(emit(ops.Transpose(apart, permutation=order)))
    query, key, content = heads
    scores = emit(ops.Div(emit(ops.MatMul(query, key)), number(maker, math.sqrt(3), 4)))
    mixed = emit(ops.MatMul(emit(ops.Softmax(scores, axis=3)), content))
    together = emit(ops.Transpose(mixed, permutation=(0, 2, 1, 3)))
    flat = emit(ops.Reshape(together, (1, length, 6)))
    rows = 1 if maker.integer(0, 1) else length
    maker.add(ops.Slice(flat, (0, 0, 0), (1, rows, 6), (1, 1, 1)), exact=False)


def one_query(maker: GraphMaker) -> None:
    """A row, or two, of each of some matrices times a transposed one, which may be read twice."""
    candidates = [v for v in maker.pool if v.type.rank >= 3 and 0 < v.type.size <= 512]
    if not candidates:
        return
    emit, value = maker.builder.emit, maker.pick(candidates)
    rank, shape = value.type.rank, value.type.shape
    rows = min(shape[-2], maker.integer(1, 2))
    query = emit(ops.Slice(value, (0,) * rank, (*shape[:-2], rows, shape[-1]), (1,) * rank))
    keys = emit(ops.Tanh(value)) if maker.integer(0, 1) else value
    transposed = emit(ops.Transpose(keys, (*range(rank - 2), rank - 1, rank - 2)))
    if maker.integer(0, 3) == 0:
        maker.add(ops.Abs(transposed), exact=False)
    maker.add(ops.Tanh(emit(ops.MatMul(emit(ops.Tanh(query)), transposed))), exact=False)


PRODUCT_PATTERNS: tuple[Callable[[GraphMaker], None], ...] = (
    scaled_products,
    turned_products,
    one_row,
    narrow_products,
    small_windows,
    cut_padding,
    written_activations,
    attention,
    one_query,
)
