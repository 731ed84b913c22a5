"""What the graph passes look for, as exporters write it: each function adds one pattern to a graph.

Inputs of what can overflow or cancel are clipped first, so that both ways to compute it agree.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from glow_nb.base.types import ElementKind
from glow_nb.hlir import ops
from glow_nb.hlir.graph import Constant, Value

if TYPE_CHECKING:
    from tests.property.random_graphs import GraphMaker

POINT: dict[str, Any] = {
    "kernel": (1, 1),
    "stride": (1, 1),
    "pads": (0, 0, 0, 0),
    "dilation": (1, 1),
}


def number(maker: GraphMaker, value: float, rank: int) -> Constant:
    """Return a constant of one element that broadcasts to *rank*."""
    return maker.builder.constant("k", np.full((1,) * rank, value, np.float32))


def small(maker: GraphMaker, rank: int) -> Value | None:
    """Return a value of at least *rank* from the pool, clipped to -4..4."""
    candidates = [v for v in maker.pool if v.type.rank >= rank and v.type.size]
    if not candidates:
        return None
    return maker.builder.emit(ops.Clip(maker.pick(candidates), minimum=-4.0, maximum=4.0))


def identities(maker: GraphMaker) -> None:
    """Arithmetic that changes nothing, or has a cheaper form."""
    emit = maker.builder.emit
    value = maker.pick(maker.pool)
    rank, exact = value.type.rank, value in maker.exact
    kind, constant = (
        (ops.Add, 0.0),
        (ops.Sub, 0.0),
        (ops.Mul, 1.0),
        (ops.Mul, -1.0),
        (ops.Div, 1.0),
        (ops.Div, -4.0),
        (ops.Pow, 1.0),
        (ops.Pow, 2.0),
    )[maker.integer(0, 7)]
    result: Value = emit(kind(value, number(maker, constant, rank)))
    choice = maker.integer(0, 3)
    if choice == 0:
        result = emit(ops.Neg(emit(ops.Neg(result))))
    elif choice == 1:
        result = emit(ops.Pow(emit(ops.Abs(result)), number(maker, 0.5, rank)))
    elif choice == 2:
        wide = emit(ops.ConvertTo(result, kind=ElementKind.FLOAT64))
        result = emit(ops.ConvertTo(wide, kind=ElementKind.FLOAT32))
    maker.add(ops.Neg(result), exact=exact and choice in (0, 2) and abs(constant) <= 1)


def bounds(maker: GraphMaker) -> None:
    """Two bounds, one after another, whose ranges may be disjoint."""
    value = maker.pick(maker.pool)
    exact = value in maker.exact
    for _ in range(2):
        low = maker.integer(-8, 8) / 4
        bound = number(maker, low, value.type.rank)
        node = (
            ops.Relu(value),
            ops.Clip(value, minimum=low, maximum=low + 1.0),
            ops.Maximum(bound, value),
            ops.Minimum(value, bound),
        )[maker.integer(0, 3)]
        value = maker.builder.emit(node)
    if maker.integer(0, 1):
        part = maker.builder.emit(ops.Mul(value, number(maker, 0.25, value.type.rank)))
        maker.add(ops.Maximum(part, value), exact=False)
    else:
        maker.add(ops.Relu(value), exact=exact)


def cut_and_join(maker: GraphMaker) -> None:
    """A tensor cut into two and put together again, in either order, with a slice of the result."""
    candidates = [v for v in maker.pool if any(n > 1 for n in v.type.shape)]
    if not candidates:
        return
    value = maker.pick(candidates)
    exact, shape = value in maker.exact, value.type.shape
    axis = max(range(len(shape)), key=lambda a: shape[a])
    first = maker.integer(1, shape[axis] - 1)
    parts = maker.builder.emit(ops.Split(value, axis=axis, sizes=(first, shape[axis] - first)))
    order = parts.results if maker.integer(0, 1) else parts.results[::-1]
    joined: Value = maker.builder.emit(ops.Concat(order, axis=axis))
    if maker.integer(0, 1):
        joined = maker.builder.emit(ops.Concat((joined, value), axis=axis))
    if maker.integer(0, 1):
        starts = tuple(n - 1 if a == axis else 0 for a, n in enumerate(joined.type.shape))
        stops = tuple(-1 if a == axis else n for a, n in enumerate(joined.type.shape))
        steps = tuple(-1 if a == axis else 1 for a in range(len(shape)))
        joined = maker.builder.emit(ops.Slice(joined, starts, stops, steps))
    stops = tuple(maker.integer(1, n) for n in joined.type.shape)
    maker.add(ops.Slice(joined, (0,) * len(shape), stops, (1,) * len(shape)), exact=exact)


def progression(maker: GraphMaker) -> None:
    """A gather of evenly spaced places, or of one by a scalar."""
    candidates = [v for v in maker.pool if v.type.rank >= 2]
    if not candidates:
        return
    value = maker.pick(candidates)
    axis = maker.integer(0, value.type.rank - 1)
    size = value.type.shape[axis]
    if maker.integer(0, 1):
        places = np.array(maker.integer(-size, size - 1))
    else:
        step = maker.integer(1, 2)
        places = np.arange(0, size, step)[:: 1 if maker.integer(0, 1) else -1].copy()
    indices = maker.builder.constant("i", places.astype(np.int64))
    maker.add(ops.Gather(value, indices, axis=axis), exact=value in maker.exact)


def repeated(maker: GraphMaker) -> None:
    """Repeated rows in elementwise arithmetic, and one matrix repeated for a batch."""
    value = maker.pick(maker.pool)
    shape = value.type.shape
    if maker.integer(0, 1) and len(shape) >= 3:
        matrix = maker.builder.constant("m", maker.numbers(*(1,) * (len(shape) - 2), shape[-1], 3))
        whole = (*shape[:-2], shape[-1], 3)
        batched = maker.builder.emit(ops.Broadcast(maker.builder.emit(ops.Tanh(matrix)), whole))
        maker.add(ops.MatMul(value, batched), exact=False)
        return
    axes = tuple(a for a in range(len(shape)) if maker.integer(0, 1))
    row = maker.builder.emit(ops.ReduceMax(value, axes=axes, keep_dims=True))
    repeats = tuple(n if a in axes else 1 for a, n in enumerate(shape))
    tiled = maker.builder.emit(ops.Abs(maker.builder.emit(ops.Tile(row, repeats=repeats))))
    exact = value in maker.exact
    maker.add(ops.Sub(tiled, value) if maker.integer(0, 1) else ops.Neg(tiled), exact=exact)


def padded_window(maker: GraphMaker) -> None:
    """A pad and the window that reads it, as frameworks without uneven padding write it."""
    candidates = [v for v in maker.pool if v.type.rank == 4 and min(v.type.shape[1:3]) >= 2]
    if not candidates:
        return
    value = maker.pick(candidates)
    if maker.integer(0, 1):
        value = maker.builder.emit(ops.Relu(value))
    pads = (0, maker.integer(0, 1), 1, 0, 0, 1, maker.integer(0, 1), 0)
    choice = maker.integer(0, 3)
    padding = -math.inf if choice == 0 else 0.0
    padded = maker.builder.emit(ops.Pad(value, pads=pads, mode="constant", value=padding))
    where = {**POINT, "kernel": (2, 2), "stride": (1, maker.integer(1, 2))}
    if choice <= 1:
        maker.add(ops.MaxPool(padded, **where), exact=False)
    elif choice == 2:
        maker.add(
            ops.AvgPool(padded, **where, count_padding=bool(maker.integer(0, 1))), exact=False
        )
    else:
        depth, channels = maker.integer(1, 3), value.type.shape[3]
        filter = maker.builder.constant("w", maker.numbers(depth, 2, 2, channels))
        bias = maker.builder.constant("b", maker.numbers(depth))
        maker.add(ops.Convolution(padded, filter, bias, **where, group=1), exact=False)


def scaled_convolution(maker: GraphMaker) -> None:
    """Scales and shifts of channels before and after a convolution."""
    candidates = [v for v in maker.pool if v.type.rank == 4]
    if not candidates:
        return
    value = maker.pick(candidates)
    channels, depth = value.type.shape[3], maker.integer(1, 4)
    group = channels if maker.integer(0, 1) else 1
    value = affine(maker, value)
    filter = maker.builder.constant("w", maker.numbers(depth * group, 1, 1, channels // group))
    bias = maker.builder.constant("b", maker.numbers(depth * group))
    where = {**POINT, "pads": (0, 0, 0, maker.integer(0, 1))}
    result = maker.builder.emit(ops.Convolution(value, filter, bias, **where, group=group))
    maker.add(ops.Tanh(affine(maker, result)), exact=False)


def affine(maker: GraphMaker, value: Value) -> Value:
    """Return *value* scaled, shifted or normalized along its last axis."""
    rank, size = value.type.rank, value.type.shape[-1]
    choice = maker.integer(0, 3)
    if choice == 0:
        return maker.builder.emit(maker.batch_normalization(value, size, rank - 1))
    row = maker.builder.constant("r", maker.numbers(*(1,) * (rank - 1), size))
    return maker.builder.emit((ops.Add, ops.Sub, ops.Mul)[choice - 1](value, row))


def dense_layers(maker: GraphMaker) -> None:
    """A transposed, flattened tensor through a dense layer with scales after it."""
    candidates = [v for v in maker.pool if v.type.rank >= 2 and v.type.size <= 512]
    if not candidates:
        return
    value = maker.pick(candidates)
    moved = maker.permutation(value.type.rank)
    if maker.integer(0, 1):
        moved = (0, *(axis for axis in moved if axis))
    transposed = maker.builder.emit(ops.Transpose(value, permutation=moved))
    rows = transposed.type.shape[0]
    flat = maker.builder.emit(ops.Reshape(transposed, (rows, transposed.type.size // rows)))
    weights = maker.builder.constant("m", maker.numbers(flat.type.shape[1], maker.integer(1, 4)))
    result: Value = maker.builder.emit(ops.MatMul(flat, weights))
    for _ in range(maker.integer(0, 3)):
        result = affine(maker, result)
    maker.add(ops.Tanh(result), exact=False)


def written_softmax(maker: GraphMaker) -> None:
    """Exponentials divided by their sum, with or without the maximum subtracted."""
    value = small(maker, 1)
    if value is None:
        return
    emit, axis = maker.builder.emit, maker.integer(0, value.type.rank - 1)
    if maker.integer(0, 1):
        value = emit(ops.Sub(value, emit(ops.ReduceMax(value, axes=(axis,), keep_dims=True))))
    power = emit(ops.Exp(value))
    total = emit(ops.ReduceSum(power, axes=(axis,), keep_dims=True))
    if maker.integer(0, 1):
        maker.add(ops.Div(power, total), exact=False)
    else:
        maker.add(ops.Mul(emit(ops.Reciprocal(total)), power), exact=False)


def written_gelu(maker: GraphMaker) -> None:
    """Half of x times one plus an error function or hyperbolic tangent."""
    x = small(maker, 0)
    if x is None:
        return
    emit, rank = maker.builder.emit, x.type.rank
    if maker.integer(0, 1):
        bent: Value = emit(ops.Erf(emit(ops.Div(x, number(maker, math.sqrt(2), rank)))))
    else:
        cube = emit(ops.Mul(emit(ops.Mul(x, x)), x))
        inner = emit(ops.Add(x, emit(ops.Mul(cube, number(maker, 0.044715, rank)))))
        slope = number(maker, math.sqrt(2 / math.pi), rank)
        bent = emit(ops.Tanh(emit(ops.Mul(slope, inner))))
    weight = emit(ops.Add(bent, number(maker, 1.0, rank)))
    half = number(maker, (0.5, 0.25)[maker.integer(0, 1)], rank)
    if maker.integer(0, 1):
        maker.add(ops.Mul(emit(ops.Mul(x, half)), weight), exact=False)
    else:
        maker.add(ops.Mul(half, emit(ops.Mul(weight, x))), exact=False)


def written_layer_normalization(maker: GraphMaker) -> None:
    """A difference from the mean over the root of its mean square, with a scale and a bias."""
    x = small(maker, 1)
    if x is None:
        return
    emit, rank = maker.builder.emit, x.type.rank
    first = maker.integer(0, rank - 1)
    axes = tuple(range(first, rank))
    centred = emit(ops.Sub(x, emit(ops.ReduceMean(x, axes=axes, keep_dims=True))))
    if maker.integer(0, 1):
        square: Value = emit(ops.Mul(centred, centred))
    else:
        square = emit(ops.Pow(centred, number(maker, 2.0, rank)))
    variance = emit(ops.ReduceMean(square, axes=axes, keep_dims=True))
    root = emit(ops.Sqrt(emit(ops.Add(variance, number(maker, 0.5, rank)))))
    shape = (1,) * first + x.type.shape[first:]
    scale, bias = (maker.builder.constant("s", maker.numbers(*shape)) for _ in range(2))
    scaled = emit(ops.Mul(emit(ops.Div(centred, root)), scale))
    maker.add(ops.Add(bias, scaled), exact=False)


def reshaped(maker: GraphMaker) -> None:
    """Elementwise work between two reshapes."""
    value = maker.pick(maker.pool)
    exact, shape = value in maker.exact, value.type.shape
    flat = (
        (value.type.size,) if maker.integer(0, 1) else (1, *shape, 1)[: 5 if len(shape) < 4 else 1]
    )
    if math.prod(flat) != value.type.size:
        return
    inner: Value = maker.builder.emit(ops.Reshape(value, flat))
    constant = maker.builder.constant("c", maker.numbers(*(n for n in flat)))
    inner = maker.builder.emit(ops.Add(maker.builder.emit(ops.Relu(inner)), constant))
    maker.add(ops.Reshape(inner, shape), exact=exact)


PATTERNS: tuple[Callable[[GraphMaker], None], ...] = (
    identities,
    bounds,
    cut_and_join,
    progression,
    repeated,
    padded_window,
    scaled_convolution,
    dense_layers,
    written_softmax,
    written_gelu,
    written_layer_normalization,
    reshaped,
)
