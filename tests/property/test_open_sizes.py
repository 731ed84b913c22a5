"""Functions whose sizes are open: for any sizes they are what is built for these sizes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial

import numpy as np
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import glow_nb
from glow_nb.base.open_size_error import OpenSizeError
from glow_nb.base.size import Symbol
from glow_nb.base.size_ranges import SizeRanges
from glow_nb.base.types import ElementKind, TensorType
from glow_nb.formats.onnx.importer import import_open, load_model
from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.differentiate import differentiate
from glow_nb.hlir.evaluate import evaluate
from glow_nb.hlir.graph import NODES, Function, Value
from glow_nb.hlir.lower import lower
from glow_nb.hlir.parse import parse_function
from glow_nb.hlir.print import external_constants, print_function
from glow_nb.hlir.save import Save
from glow_nb.hlir.with_sizes import with_sizes
from tests.property.drawn_operators import draw_graph
from tests.property.onnx_draws import draw
from tests.property.opened import Opening, every, feeds_for, first, opened
from tests.property.test_drawn_operators import OPERATORS, SEEDS, SLOWLY_DRAWN, check_close

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


def _relu(builder: Builder, x: Value) -> Value:
    return builder.emit(ops.Relu(x))


def _add_row(builder: Builder, x: Value) -> Value:
    row = builder.constant("r", np.arange(x.type.shape[2], dtype=np.float32)[None, None])
    return builder.emit(ops.Add(builder.emit(ops.Broadcast(row, x.type.shape)), x))


def _halves(builder: Builder, x: Value) -> Value:
    depth = x.type.shape[2]
    if depth % 2:
        return x
    left, right = builder.emit(ops.Split(x, 2, (depth // 2, depth // 2))).results
    return builder.emit(ops.Concat((right, left), 2))


def _sum_and_back(builder: Builder, x: Value, axis: int) -> Value:
    total = builder.emit(ops.ReduceSum(x, (axis,), keep_dims=True))
    return builder.emit(ops.Maximum(builder.emit(ops.Broadcast(total, x.type.shape)), x))


AXES = st.sampled_from([0, 1])
ROUNDED = (_scores, _add_mean)
"""Steps whose results depend on the order of the arithmetic."""
STEPS: st.SearchStrategy[Step] = st.one_of(
    st.sampled_from([_swap, _merge, _scores, _pool, _convolve, _relu, _add_row, _halves]),
    st.builds(
        partial, st.sampled_from([_double, _backwards, _add_mean, _pad, _sum_and_back]), axis=AXES
    ),
    st.builds(partial, st.just(_cut), axis=AXES, step=st.sampled_from([1, 2, 3])),
)


WITH_SIZES = [name for name in OPERATORS if name not in SLOWLY_DRAWN]
"""Operators that are drawn with an open size."""


def function_of(steps: list[Step], batch: int, length: int) -> Function:
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
    built = function_of(steps, Symbol("batch", 32, 3, 64).size, Symbol("length", 64, 3, 512).size)
    text = print_function(built)
    read = parse_function(text, constants=external_constants(built))
    assert print_function(read) == text
    sizes = {"batch": batch, "length": length}
    if not all(guard.holds(sizes) for guard in built.guards):
        return
    static = function_of(steps, batch, length)
    assert print_function(with_sizes(built, sizes)) == print_function(static)
    x = (np.random.default_rng(0).integers(-8, 9, (batch, length, 4)) / 4).astype(np.float32)
    found, wanted = evaluate(read, {"x": x}), evaluate(static, {"x": x})
    assert found["y"].shape == wanted["y"].shape
    assert np.array_equal(found["y"], wanted["y"])
    guards = built.guards
    optimized = glow_nb.optimize(built)
    assert optimized.guards == guards
    for made in (optimized, lower(optimized)):
        if not all(guard.holds(sizes) for guard in made.guards):
            continue
        found = evaluate(made, {"x": x})
        check_close(found, wanted)
        if not any(getattr(step, "func", step) in ROUNDED for step in steps):
            assert np.array_equal(found["y"], wanted["y"])


def _loss(steps: list[Step], batch: int, length: int) -> Function:
    builder = Builder.continuing(function_of(steps, batch, length))
    value = next(node.input for node in builder.nodes if isinstance(node, Save))
    square = builder.emit(ops.Mul(value, value))
    builder.save(builder.emit(ops.ReduceMean(square, (0, 1, 2), keep_dims=False)), "loss")
    return builder.function()


@given(st.lists(STEPS, min_size=1, max_size=4), st.integers(3, 6), st.integers(3, 9))
def test_gradients_with_open_sizes_are_those_of_each(
    steps: list[Step], batch: int, length: int
) -> None:
    loss = _loss(steps, Symbol("batch", 32, 3, 64).size, Symbol("length", 64, 3, 512).size)
    sizes = {"batch": batch, "length": length}
    gradients = differentiate(loss, ["x"], "loss")
    if not all(guard.holds(sizes) for guard in gradients.guards):
        return
    x = (np.random.default_rng(0).integers(-8, 9, (batch, length, 4)) / 4).astype(np.float32)
    wanted = evaluate(differentiate(_loss(steps, batch, length), ["x"], "loss"), {"x": x})
    for made in (gradients, glow_nb.optimize(gradients)):
        check_close(evaluate(made, {"x": x}), wanted)


@given(SEEDS, st.sampled_from([every, first]), st.booleans())
@settings(max_examples=settings().max_examples // 4 + 1, phases=set(Phase) - {Phase.shrink})
def test_operators_with_open_sizes_keep_their_meaning(
    seed: int, opening: Callable[[Symbol, int], Opening], in_attributes: bool
) -> None:
    """Passes note no guard of their own; lowering asks for a number by name where it needs one."""
    drawn = draw_graph([NODES[WITH_SIZES[seed % len(WITH_SIZES)]]], seed).function
    values = (*drawn.inputs, *drawn.constants)
    number = max((size for value in values for size in value.type.shape), default=1)
    function = opened(
        drawn, opening(Symbol("n", number, 1, max(number, 64)), number), in_attributes=in_attributes
    )
    if function is None or not function.sizes:
        return
    guards = function.guards
    forms = [glow_nb.optimize(function)]
    print_function(forms[0])
    assert forms[0].guards == guards
    with suppress(OpenSizeError):
        forms.append(lower(function))
    for size in {number, number + 1, 1, 6}:
        if all(guard.holds({"n": size}) for guard in function.guards):
            feeds = feeds_for(with_sizes(function, {"n": size}), seed)
            wanted = evaluate(with_sizes(function, {"n": size}), feeds)
            for form in forms:
                check_close(evaluate(form, feeds), wanted)


@given(st.integers(0, 1 << 32), st.integers(1, 4))
@settings(max_examples=settings().max_examples // 4 + 1, phases=set(Phase) - {Phase.shrink})
def test_models_keep_their_meaning_with_all_sizes_open(seed: int, steps: int) -> None:
    drawing = draw(seed, steps)
    outputs, feeds = drawing.outputs(), drawing.feeds()
    if not outputs or not all(array.size for array in feeds.values()):
        return
    hints = {f"{name}_{i}": n for name, array in feeds.items() for i, n in enumerate(array.shape)}
    model = load_model(drawing.model(outputs, has_open_sizes=True).SerializeToString())
    function, _ = import_open(model, {}, {}, SizeRanges(hints=hints))
    for form in (function, glow_nb.optimize(function)):
        drawing.check(evaluate(form, feeds), outputs)
