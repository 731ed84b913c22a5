"""Functions whose sizes are open: for any sizes they are what is built for these sizes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from glow_nb.base.size import Symbol
from glow_nb.base.types import ElementKind, TensorType
from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.evaluate import evaluate
from glow_nb.hlir.graph import Function, Value
from glow_nb.hlir.parse import parse_function
from glow_nb.hlir.print import external_constants, print_function
from glow_nb.hlir.with_sizes import with_sizes

Step = Callable[[Builder, Value], Value]


def _swap(builder: Builder, x: Value) -> Value:
    return builder.emit(ops.Transpose(x, (1, 0, 2)))


def _double(builder: Builder, x: Value, axis: int) -> Value:
    return builder.emit(ops.Concat((x, x), axis))


def _cut(builder: Builder, x: Value, axis: int, step: int) -> Value:
    starts, stops, steps = [0, 0, 0], list(x.type.shape), [1, 1, 1]
    starts[axis], steps[axis] = step - 1, step
    return builder.emit(ops.Slice(x, tuple(starts), tuple(stops), tuple(steps)))


def _backwards(builder: Builder, x: Value, axis: int) -> Value:
    starts, stops, steps = [0, 0, 0], list(x.type.shape), [1, 1, 1]
    starts[axis], stops[axis], steps[axis] = x.type.shape[axis] - 1, -1, -2
    return builder.emit(ops.Slice(x, tuple(starts), tuple(stops), tuple(steps)))


def _merge(builder: Builder, x: Value) -> Value:
    first, second, third = x.type.shape
    flat = builder.emit(ops.Reshape(x, (first * second, third)))
    weights = builder.constant("w", np.eye(4, dtype=np.float32)[:, ::-1].copy())
    product = builder.emit(ops.MatMul(flat, weights)) if third == 4 else flat
    return builder.emit(ops.Reshape(product, (first, second, third)))


def _scores(builder: Builder, x: Value) -> Value:
    product = builder.emit(ops.MatMul(x, builder.emit(ops.Transpose(x, (0, 2, 1)))))
    return builder.emit(ops.MatMul(builder.emit(ops.Softmax(product, 2)), x))


def _add_mean(builder: Builder, x: Value, axis: int) -> Value:
    mean = builder.emit(ops.ReduceMean(x, (axis,), keep_dims=True))
    return builder.emit(ops.Add(x, mean))


def _pad(builder: Builder, x: Value, axis: int) -> Value:
    pads = [0] * 6
    pads[axis] = pads[3 + axis] = 1
    return builder.emit(ops.Pad(x, tuple(pads), "edge"))


def _pool(builder: Builder, x: Value) -> Value:
    return builder.emit(ops.MaxPool(x, kernel=(3,), stride=(2,), pads=(1, 1), dilation=(1,)))


def _convolve(builder: Builder, x: Value) -> Value:
    depth = x.type.shape[2]
    filter = builder.constant("f", np.ones((depth, 3, depth), np.float32) / 4)
    bias = builder.constant("b", np.zeros(depth, np.float32))
    window = ops.Convolution(x, filter, bias, kernel=(3,), stride=(2,), pads=(1, 1), dilation=(1,))
    return builder.emit(window)


AXES = st.sampled_from([0, 1])
STEPS: st.SearchStrategy[Step] = st.one_of(
    st.sampled_from([_swap, _merge, _scores, _pool, _convolve]),
    st.builds(partial, st.sampled_from([_double, _backwards, _add_mean, _pad]), axis=AXES),
    st.builds(partial, st.just(_cut), axis=AXES, step=st.sampled_from([1, 2, 3])),
)


def _built(steps: list[Step], batch: int, length: int) -> Function:
    builder = Builder("main")
    value: Value = builder.input("x", TensorType(ElementKind.FLOAT32, (batch, length, 4)))
    for step in steps:
        value = step(builder, value)
    builder.save(value, "y")
    return builder.function()


@given(st.lists(STEPS, min_size=1, max_size=5), st.integers(3, 6), st.integers(3, 9))
def test_a_function_with_open_sizes_is_the_static_one_for_each(
    steps: list[Step], batch: int, length: int
) -> None:
    built = _built(steps, Symbol("batch", 32, 3, 64).size, Symbol("length", 64, 3, 512).size)
    text = print_function(built)
    read = parse_function(text, constants=external_constants(built))
    assert print_function(read) == text
    sizes = {"batch": batch, "length": length}
    if not all(guard.holds(sizes) for guard in built.guards):
        return
    static = _built(steps, batch, length)
    assert print_function(with_sizes(built, sizes)) == print_function(static)
    x = np.random.default_rng(0).standard_normal((batch, length, 4), np.float32)
    found, wanted = evaluate(read, {"x": x})["y"], evaluate(static, {"x": x})["y"]
    assert found.shape == wanted.shape
    assert np.array_equal(found, wanted)
