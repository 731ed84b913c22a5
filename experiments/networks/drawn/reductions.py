"""Reductions, normalizations, softmax, running sums, selections."""

from __future__ import annotations

import numpy as np

from experiments.networks.drawn.drawing import FLOATS, Drawing, kind


def _reduction(g: Drawing, axis: int) -> str:
    operator = g.one_of("Sum", "Mean", "Max", "Min", "L2", "SumSquare", "LogSumExp", "Prod", "L1")
    x = g.input(g.whole(8, 64), g.whole(8, 128), g.whole(8, 256))
    return str(g.node(f"Reduce{operator}", x, g.constant([axis]), keepdims=g.one_of(0, 1)))


@kind
def reduction_of_last_axis(g: Drawing) -> str:
    return _reduction(g, 2)


@kind
def reduction_of_inner_axis(g: Drawing) -> str:
    return _reduction(g, g.one_of(0, 1))


@kind
def reduction_of_integers(g: Drawing) -> str:
    x = g.input(g.whole(8, 64), g.whole(8, 128), g.whole(8, 256), kind=g.one_of("int32", "int64"))
    operator = g.one_of("ReduceSum", "ReduceMax", "ReduceMin")
    return str(g.node(operator, x, g.constant([g.one_of(0, 1, 2)])))


@kind
def reduction_in_float64(g: Drawing) -> str:
    x = g.input(g.whole(8, 64), g.whole(8, 64), g.whole(8, 256), kind="float64")
    operator = g.one_of("ReduceSum", "ReduceMean", "ReduceMax")
    return str(g.node(operator, x, g.constant([g.one_of(0, 1, 2)])))


@kind
def arg_reduction(g: Drawing) -> str:
    x = g.input(g.whole(8, 64), g.whole(8, 128), g.whole(8, 256))
    return str(g.node(g.one_of("ArgMax", "ArgMin"), x, axis=g.one_of(0, 1, 2)))


@kind
def softmax(g: Drawing) -> str:
    x = g.input(g.whole(4, 64), g.whole(4, 128), g.whole(8, 512), kind=g.one_of(*FLOATS))
    return str(g.node(g.one_of("Softmax", "Softmax", "LogSoftmax"), x, axis=2))


@kind
def softmax_of_inner_axis(g: Drawing) -> str:
    x = g.input(g.whole(1, 16), g.whole(4, 128), g.whole(16, 512))
    return str(g.node(g.one_of("Softmax", "LogSoftmax"), x, axis=1))


@kind
def layer_normalization(g: Drawing) -> str:
    width = g.whole(32, 1024)
    scale, bias = (g.constant(g.array(width)) for _ in range(2))
    x = g.input(g.whole(1, 8), g.whole(8, 128), width)
    return str(g.node("LayerNormalization", x, scale, bias, axis=-1))


@kind
def layer_normalization_by_parts(g: Drawing) -> str:
    """Its operators, as exporters write them."""
    width = g.whole(32, 1024)
    x, axis = g.input(1, g.whole(8, 256), width), g.constant([-1])
    centred = g.node("Sub", x, g.node("ReduceMean", x, axis))
    variance = g.node("ReduceMean", g.node("Mul", centred, centred), axis)
    small = g.constant(np.array(1e-5, np.float32))
    y = g.node("Div", centred, g.node("Sqrt", g.node("Add", variance, small)))
    scale, bias = (g.constant(g.array(width)) for _ in range(2))
    return str(g.node("Add", g.node("Mul", y, scale), bias))


@kind
def root_mean_square_normalization(g: Drawing) -> str:
    width = g.whole(32, 1024)
    x, axis = g.input(1, g.whole(8, 256), width), g.constant([-1])
    mean = g.node("ReduceMean", g.node("Mul", x, x), axis)
    root = g.node("Sqrt", g.node("Add", mean, g.constant(np.array(1e-6, np.float32))))
    return str(g.node("Mul", g.node("Div", x, root), g.constant(g.array(width))))


def _images(g: Drawing, channels: int) -> str:
    """Samples of one to three dimensions with the channels first."""
    samples = g.one_of(1, 1, g.whole(2, 4))
    sizes = g.one_of([g.whole(16, 1024)], [g.whole(7, 64), g.whole(7, 64)], [g.whole(4, 16)] * 3)
    return g.input(samples, channels, *sizes)


@kind
def instance_normalization(g: Drawing) -> str:
    channels = g.whole(8, 256)
    scale, bias = (g.constant(g.array(channels)) for _ in range(2))
    return str(g.node("InstanceNormalization", _images(g, channels), scale, bias))


@kind
def group_normalization(g: Drawing) -> str:
    groups = g.one_of(1, 4, 8, 32, g.whole(3, 64))
    channels = groups * g.whole(1, max(1, 256 // groups))
    scale, bias = (g.constant(g.array(channels)) for _ in range(2))
    x = _images(g, channels)
    return str(g.node("GroupNormalization", x, scale, bias, num_groups=groups))


@kind
def group_normalization_by_parts(g: Drawing) -> str:
    """As PyTorch exports it, and an activation."""
    groups = g.one_of(4, 8, 32)
    channels, size = groups * g.whole(1, 256 // groups), g.whole(7, 64)
    x = g.input(1, channels, size, size)
    ones, zeros = (g.constant(np.full(groups, number, np.float32)) for number in (1, 0))
    rows = g.node("Reshape", x, g.constant([0, groups, -1]))
    y = g.node("InstanceNormalization", rows, ones, zeros)
    y = g.node("Reshape", y, g.constant([1, channels, size, size]))
    scale, bias = (g.constant(g.array(channels, 1, 1)) for _ in range(2))
    return str(g.node("Relu", g.node("Add", g.node("Mul", y, scale), bias)))


@kind
def batch_normalization(g: Drawing) -> str:
    channels = g.whole(8, 256)
    x = g.input(1, channels, g.whole(7, 64), g.whole(7, 64))
    rest = [g.constant(np.abs(g.array(channels)) + np.float32(0.1)) for _ in range(4)]
    return str(g.node("BatchNormalization", x, *rest))


@kind
def power_normalization(g: Drawing) -> str:
    x = g.input(g.whole(8, 64), g.whole(8, 64), g.whole(16, 256))
    return str(g.node("LpNormalization", x, axis=g.one_of(1, 2), p=g.one_of(1, 2)))


@kind
def local_response_normalization(g: Drawing) -> str:
    x = g.input(1, g.whole(16, 192), g.whole(14, 56), g.whole(14, 56))
    return str(g.node("LRN", x, size=5, alpha=1e-4, beta=0.75))


@kind
def mean_variance_normalization(g: Drawing) -> str:
    x = g.input(1, g.whole(3, 64), g.whole(14, 64), g.whole(14, 64))
    return str(g.node("MeanVarianceNormalization", x, axes=g.one_of([0, 2, 3], [2, 3])))


@kind
def running_sum(g: Drawing) -> str:
    shape = (g.whole(4, 64), g.whole(8, 128), g.whole(8, 256))
    x, axis = g.input(*shape, kind=g.one_of(*FLOATS[:4], "int32")), g.one_of(0, 1, 2)
    exclusive, reverse = (g.one_of(0, 0, 1) for _ in range(2))
    place = g.constant(np.array(axis))
    return str(g.node("CumSum", x, place, exclusive=exclusive, reverse=reverse))


def _top_k(g: Drawing, lines: int, length: int, k: int, axis: int = 1) -> list[str]:
    numbers = g.numbers.permuted(
        np.tile(np.arange(length, dtype=np.float32), (lines, 1)), axis=1
    )  # without ties, where engines may differ
    x = g.feed(np.ascontiguousarray(numbers if axis == 1 else numbers.T))
    return list(g.node("TopK", x, g.constant([k]), results=2, axis=axis, largest=g.one_of(1, 1, 0)))


@kind
def top_few(g: Drawing) -> list[str]:
    return _top_k(g, g.whole(1, 64), g.whole(100, 5000), g.whole(2, 20))


@kind
def top_one(g: Drawing) -> list[str]:
    return _top_k(g, g.whole(1, 64), g.whole(100, 5000), 1)


@kind
def top_nearly_all(g: Drawing) -> list[str]:
    length = g.whole(100, 3000)
    return _top_k(g, g.whole(1, 32), length, length - g.whole(1, 1 + length // 4) + 1)


@kind
def top_of_inner_axis(g: Drawing) -> list[str]:
    return _top_k(g, g.whole(16, 256), g.whole(16, 256), g.whole(1, 10), axis=0)


@kind
def top_of_long_line(g: Drawing) -> list[str]:
    return _top_k(g, 1, g.whole(10_000, 100_000), g.whole(100, 1000))


@kind
def places_of_nonzeros(g: Drawing) -> str:
    x = np.maximum(g.array(g.whole(16, 256), g.whole(16, 256)), 0)
    return str(g.node("NonZero", g.feed(x)))


@kind
def hardmax(g: Drawing) -> str:
    return str(g.node("Hardmax", g.input(g.whole(16, 256), g.whole(16, 1024)), axis=-1))
