"""Random nodes that reduce, search, or normalize along axes."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from tests.property.onnx_draws.drawing import FLOATS, INTS, Drawing, recipe
from tests.property.onnx_draws.reference import RefusedError


@recipe(
    "ReduceSum",
    "ReduceProd",
    "ReduceMean",
    "ReduceMax",
    "ReduceMin",
    "ReduceL1",
    "ReduceL2",
    "ReduceSumSquare",
    "ReduceLogSum",
    "ReduceLogSumExp",
)
def reduce(g: Drawing, op: str) -> None:
    is_float = op in ("ReduceLogSum", "ReduceLogSumExp", "ReduceL2", "ReduceMean")
    low, high = (0.2, 2) if op in ("ReduceProd", "ReduceLogSum") else (-3, 3)
    x = g.tensor(FLOATS if is_float else (*FLOATS, *INTS), low=low, high=high)
    magnitudes = np.abs(g.tensors[x].array.astype(np.float64))
    if op == "ReduceProd" and np.log2(np.maximum(magnitudes, 1)).sum() >= 31:
        raise RefusedError  # integers that overflow
    axes = g.axes(g.rank_of(x)) if g.chance(0.8) else []
    if 0 in g.shape_of(x):  # ONNX Runtime mistakes negative axes of empty tensors
        if op == "ReduceMean":  # and calls the mean of nothing 0, which is no number to us
            raise RefusedError
        axes = [axis % g.rank_of(x) for axis in axes]
    options: dict[str, Any] = g.some(keepdims=g.whole(0, 1))
    if g.opset >= (13 if op == "ReduceSum" else 18):
        options |= g.some(noop_with_empty_axes=g.whole(0, 1))
        operands = [x, g.known(*axes)] if axes or g.chance(0.3) else [x]
        g.add(op, operands, **options)
    else:
        g.add(op, [x], axes=axes or None, **options)


@recipe("ArgMax", "ArgMin")
def arg_extreme(g: Drawing, op: str) -> None:
    x = g.tensor((*FLOATS, "int32", "uint8"), (1, 2, 3, 4))
    if 0 in g.shape_of(x):
        raise RefusedError
    options = g.some(axis=g.axis(g.rank_of(x)), keepdims=g.whole(0, 1))
    if g.opset >= 12:
        options |= g.some(select_last_index=g.whole(0, 1))
    g.add(op, [x], **options)


@recipe("TopK")
def top_k(g: Drawing, op: str) -> None:
    x = g.tensor((*FLOATS, *INTS), (1, 2, 3, 4))
    axis = g.axis(g.rank_of(x))
    count = g.known(g.whole(0, g.shape_of(x)[axis]))
    g.add(op, [x, count], 2, axis=axis, **g.some(largest=g.whole(0, 1)))


@recipe("CumSum")
def running_sum(g: Drawing, op: str) -> None:
    x = g.tensor((*FLOATS, *INTS), (1, 2, 3, 4))
    axis = g.known_scalar(g.axis(g.rank_of(x)), g.one_of("int32", "int64"))
    g.add(op, [x, axis], **g.some(exclusive=g.whole(0, 1), reverse=g.whole(0, 1)))


@recipe("Softmax", "LogSoftmax", "Hardmax")
def softmax(g: Drawing, op: str) -> None:
    x = g.tensor(ranks=(2, 2, 3, 4) if g.opset < 13 else (1, 2, 3, 4))
    g.add(op, [x], **g.some(axis=g.axis(g.rank_of(x))))


@recipe("LpNormalization")
def lp_normalization(g: Drawing, op: str) -> None:
    x = g.tensor(ranks=(1, 2, 3, 4))
    g.add(op, [x], **g.some(axis=g.axis(g.rank_of(x)), p=g.whole(1, 2)))


@recipe("MeanVarianceNormalization")
def mean_variance_normalization(g: Drawing, op: str) -> None:
    x = g.tensor(ranks=(4,))
    (name,) = g.add(op, [x], **g.some(axes=sorted(a % 4 for a in g.axes(4))))
    if not np.isfinite(g.tensors[name].array).all():  # 0 / 0 to ONNX Runtime, which adds no 1e-9
        raise RefusedError


@recipe("LayerNormalization")
def layer_normalization(g: Drawing, op: str) -> None:
    g.since(17)
    x = g.tensor(ranks=(1, 2, 3, 4))
    axis = g.axis(g.rank_of(x))
    shape = g.shape_of(x)[axis % g.rank_of(x) :]
    operands = [x, *(g.like(x, shape) for _ in range(g.whole(1, 2)))]
    options = g.some(epsilon=0.01)
    g.add(op, operands, g.one_of(1, 1, 3), axis=axis, **options)


@recipe("RMSNormalization")
def root_mean_square_normalization(g: Drawing, op: str) -> None:
    g.since(23)
    x = g.tensor(ranks=(1, 2, 3, 4))
    axis = g.axis(g.rank_of(x))
    scale = g.like(x, g.shape_of(x)[axis % g.rank_of(x) :])
    g.add(op, [x, scale], axis=axis, **g.some(epsilon=0.01))


@recipe("InstanceNormalization")
def instance_normalization(g: Drawing, op: str) -> None:
    x = g.tensor(("float32",), (3, 4, 5))
    if prod(g.shape_of(x)[2:]) < 2:  # ONNX Runtime takes a large mean from a large number
        raise RefusedError
    vectors = [g.like(x, (g.shape_of(x)[1],)) for _ in range(2)]
    g.add(op, [x, *vectors], epsilon=0.01)


@recipe("GroupNormalization")
def group_normalization(g: Drawing, op: str) -> None:
    g.since(18)
    x = g.tensor(("float32",), (3, 4, 5))
    channels = g.shape_of(x)[1]
    groups = g.one_of(*(n for n in range(1, channels + 1) if channels % n == 0))
    count = channels if g.opset >= 21 else groups
    vectors = [g.like(x, (count,)) for _ in range(2)]
    g.add(op, [x, *vectors], epsilon=0.01, num_groups=groups)


@recipe("BatchNormalization")
def batch_normalization(g: Drawing, op: str) -> None:
    x = g.tensor(("float32", "float64"), (2, 3, 4, 5))
    channels = (g.shape_of(x)[1],)
    vectors = [g.like(x, channels) for _ in range(3)]
    variance = g.fresh(np.abs(g.array(g.kind_of(x), channels)) + 0.5)
    options = g.some(epsilon=0.01, momentum=0.7)
    if g.opset >= 14 and g.kind_of(x) == "float32" and g.chance(0.2):
        g.add(op, [x, *vectors, variance], 3, training_mode=1, **options)
    else:
        g.add(op, [x, *vectors, variance], **options)


@recipe("LRN")
def local_response(g: Drawing, op: str) -> None:
    x = g.tensor(("float32",), (4,))
    g.add(op, [x], size=g.one_of(1, 3, 5), **g.some(alpha=0.5, beta=0.6, bias=1.5))
