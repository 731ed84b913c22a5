"""Random nodes whose operands are indices, or whose result has a size that numbers decide."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.property.onnx_draws.drawing import FLOATS, INTS, Drawing, Shape, recipe
from tests.property.onnx_draws.reference import RefusedError

MOVED = (*FLOATS, *INTS, "uint8", "bool")
COUNTED: frozenset[str] = frozenset({"Compress", "NonZero", "Unique", "NonMaxSuppression"})
"""Operators whose results nothing else reads: what padding they have nobody else knows."""


def _places(g: Drawing, shape: Shape, size: int) -> str:
    """Return indices into an axis of *size*, negative ones too."""
    array = g.numbers.integers(-size, max(size, 1 - size), shape)
    return g.fresh(array.astype(g.one_of("int64", "int64", "int32")))


@recipe("Gather")
def gather(g: Drawing, op: str) -> None:
    x = g.tensor(MOVED, (1, 2, 3, 4))
    axis = g.axis(g.rank_of(x))
    g.add(
        op,
        [x, _places(g, g.shape((0, 1, 1, 2)), g.shape_of(x)[axis])],
        **g.some(axis=axis) if axis == 0 else {"axis": axis},
    )


@recipe("GatherElements")
def gather_elements(g: Drawing, op: str) -> None:
    x = g.tensor(MOVED, (1, 2, 3, 4))
    axis = g.axis(g.rank_of(x))
    shape = [g.whole(min(n, 1), n) for n in g.shape_of(x)]
    shape[axis] = g.whole(1, 6)
    g.add(op, [x, _places(g, tuple(shape), g.shape_of(x)[axis])], axis=axis)


def _coordinates(g: Drawing, shape: Shape, depth: int, batch: Shape, *, distinct: bool) -> Any:
    """Return coordinates of *depth* of slices of a tensor of *shape*."""
    count = g.whole(1, 4)
    sizes = shape[len(batch) : len(batch) + depth]
    total = int(np.prod(sizes, dtype=np.int64))
    if not total:
        raise RefusedError
    if distinct:
        count = min(count, total)
        flat = g.numbers.permutation(total)[:count]
    else:
        flat = g.numbers.integers(0, total, (*batch, count))
    places = np.stack(np.unravel_index(flat, sizes), axis=-1).astype(np.int64)
    signs = g.numbers.random(places.shape) < 0.3
    return places - signs * np.array(sizes, np.int64)


@recipe("GatherND")
def gather_nd(g: Drawing, op: str) -> None:
    x = g.tensor(MOVED, (1, 2, 3, 4))
    shape, rank = g.shape_of(x), g.rank_of(x)
    batch = g.whole(0, rank - 1) if g.opset >= 12 and g.chance(0.3) else 0
    depth = g.whole(1, rank - batch)
    places = _coordinates(g, shape, depth, shape[:batch], distinct=False)
    g.add(op, [x, g.fresh(places)], batch_dims=batch or None)


def _reduction(g: Drawing) -> dict[str, Any]:
    if g.opset < 16 or g.chance():
        return {}
    return {"reduction": g.one_of("add", "mul", *(["max", "min"] if g.opset >= 18 else []))}


@recipe("ScatterElements", "Scatter")
def scatter_elements(g: Drawing, op: str) -> None:
    x = g.tensor((*FLOATS, *INTS), (1, 2, 3, 4))
    rank = g.rank_of(x)
    axis = g.axis(rank)
    options = {} if op == "Scatter" else _reduction(g)
    size = g.shape_of(x)[axis]
    shape = [g.whole(min(n, 1), n) for n in g.shape_of(x)]
    shape[axis] = g.whole(min(size, 1), size if not options else 5)
    if options:
        places = g.numbers.integers(-size, max(size, 1 - size), shape)
    else:  # the same place twice has no right answer
        places = np.argsort(
            g.numbers.random([*shape[: axis % rank], size, *shape[axis % rank + 1 :]]), axis=axis
        )
        places = np.take(places, np.arange(shape[axis]), axis=axis)
        places = places - size * (g.numbers.random(shape) < 0.3)
    updates = g.like(x, tuple(shape))
    g.add(op, [x, g.fresh(places.astype(np.int64)), updates], axis=axis, **options)


@recipe("ScatterND")
def scatter_nd(g: Drawing, op: str) -> None:
    x = g.tensor((*FLOATS, *INTS), (1, 2, 3, 4))
    options, depth = _reduction(g), g.whole(1, g.rank_of(x))
    places = _coordinates(g, g.shape_of(x), depth, (), distinct=not options)
    updates = g.like(x, (*places.shape[:-1], *g.shape_of(x)[depth:]))
    g.add(op, [x, g.fresh(places), updates], **options)


@recipe("ReverseSequence")
def reverse_sequence(g: Drawing, op: str) -> None:
    x = g.tensor((*FLOATS, *INTS), (2, 3, 4))
    time = g.whole(0, 1)
    steps, batch = g.shape_of(x)[time], g.shape_of(x)[1 - time]
    lengths = g.numbers.integers(0, steps + 1, batch).astype(np.int64)
    g.add(op, [x, g.fresh(lengths)], time_axis=time, batch_axis=1 - time)


@recipe("Compress")
def compress(g: Drawing, op: str) -> None:
    x = g.tensor(MOVED, (1, 2, 3))
    axis = g.axis(g.rank_of(x))
    with_axis = g.chance(0.6)
    size = g.shape_of(x)[axis] if with_axis else g.tensors[x].array.size
    chosen = g.fresh(g.array("bool", (g.whole(min(1, size), size),)))
    g.add(op, [x, chosen], is_operand=False, axis=axis if with_axis else None)


@recipe("NonZero")
def non_zero(g: Drawing, op: str) -> None:
    g.add(op, [g.tensor(("float32", "int32", "int64", "bool"), (1, 2, 3))], is_operand=False)


@recipe("Unique")
def unique(g: Drawing, op: str) -> None:
    x = g.tensor(("float32", "int64"), (1, 2, 3))
    if 0 in g.shape_of(x):  # ONNX Runtime ends the process
        raise RefusedError
    options = g.some(axis=g.axis(g.rank_of(x)), sorted=g.whole(0, 1))
    g.add(op, [x], g.whole(1, 4), is_operand=False, **options)


@recipe("NonMaxSuppression")
def non_max_suppression(g: Drawing, op: str) -> None:
    batch, classes, count = g.whole(1, 2), g.whole(1, 2), g.whole(1, 6)
    corners = g.array("float32", (batch, count, 4), 0, 1)
    scores = g.fresh(g.array("float32", (batch, classes, count), 0, 1))
    limits = [
        g.known(g.whole(0, 4)),
        g.fresh(np.array([g.number(0.1, 0.9)], np.float32)),
        g.fresh(np.array([g.number(0, 0.5)], np.float32)),
    ]
    g.add(
        op,
        [g.fresh(corners), scores, *limits[: g.whole(1, 3)]],
        is_operand=False,
        **g.some(center_point_box=g.whole(0, 1)),
    )


@recipe("ArrayFeatureExtractor", domain="ai.onnx.ml")
def features(g: Drawing, op: str) -> None:
    x = g.tensor(("float32", "int64", "int32"), (1, 2, 3))
    places = g.numbers.integers(0, max(1, g.shape_of(x)[-1]), (1, g.whole(1, 4)))
    g.add(op, [x, g.fresh(places)], domain="ai.onnx.ml")


@recipe("Binarizer", domain="ai.onnx.ml")
def binarizer(g: Drawing, op: str) -> None:
    g.add(op, [g.tensor(("float32",))], domain="ai.onnx.ml", **g.some(threshold=g.number(-1, 1)))
