"""Wide products of 16-bit floats, with float32 results, mean the same everywhere."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import glow_nb
from glow_nb.backends.cpu.select_packed_operators import select_packed_operators
from glow_nb.backends.cpu.transposed_convolutions import as_columns
from glow_nb.base.types import Array, ElementKind, TensorType
from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.evaluate import evaluate
from glow_nb.hlir.graph import Function, Node, Value
from glow_nb.hlir.lower import lower
from glow_nb.hlir.parse import parse_function
from glow_nb.hlir.rewrite import rewrite
from glow_nb.kernels.target import Target

KINDS = [ElementKind.BFLOAT16, ElementKind.FLOAT16]
SIZES = st.one_of(st.integers(1, 9), st.sampled_from([0, 16, 31, 33, 70]))
TOLERANCE = 2e-5
"""Of sums of float32 in any order, as a part of the sum of magnitudes (here at most a few 10)."""


class Drawing:
    """Draws a graph of one wide product, its operands, and what comes after it.

    Attributes:
        data: What draws.
        b: The graph.
        kind: Kind of the operands.
        feeds: Numbers of the inputs.
    """

    def __init__(self, data: st.DataObject) -> None:
        self.data, self.b = data, Builder()
        self.random = np.random.default_rng(data.draw(st.integers(0, 99)))
        self.kind = data.draw(st.sampled_from(KINDS))
        self.feeds: dict[str, Array] = {}

    def is_so(self) -> bool:
        return self.data.draw(st.booleans())

    def size(self) -> int:
        return self.data.draw(SIZES)

    def operand(self, name: str, shape: tuple[int, ...]) -> Value:
        """Return an operand, which may be constant and may lie transposed."""
        is_transposed = self.is_so()
        lies = (*shape[:-2], shape[-1], shape[-2]) if is_transposed else shape
        numbers = self.random.standard_normal(lies).astype(self.kind.dtype)
        value: Value
        if name != "left" and self.is_so():
            value = self.b.constant(name, numbers)
        else:
            value = self.b.input(name, TensorType.of(numbers))
            self.feeds[name] = numbers
        if not is_transposed:
            return value
        rank = len(shape)
        return self.b.emit(ops.Transpose(value, (*range(rank - 2), rank - 1, rank - 2)))

    def bias(self, size: int) -> Value:
        return self.b.constant("bias", self.random.standard_normal(size).astype(np.float32))

    def mat_mul(self) -> Node:
        batch = self.data.draw(st.sampled_from([(), (), (1,), (3,), (2, 2)]))
        rows, inner, depth = self.size(), self.size(), self.size()
        left = self.operand("left", (*batch, rows, inner))
        right = self.operand("right", (*(() if self.is_so() else batch), inner, depth))
        if right.type.rank == left.type.rank == 2 and self.is_so():
            return ops.FullyConnected(left, right, self.bias(depth), wide=True)
        return ops.MatMul(left, right, wide=True)

    def convolution(self) -> Node:
        group = self.data.draw(st.sampled_from([1, 1, 2, 6]))
        channels = group * self.data.draw(st.integers(1, 4))
        depth = group * self.data.draw(st.integers(1, 3))
        kernel = self.data.draw(st.sampled_from([(1, 1), (3, 3), (2, 3)]))
        pad, stride = self.data.draw(st.integers(0, 1)), self.data.draw(st.integers(1, 2))
        window: dict[str, Any] = {"kernel": kernel, "stride": (stride,) * 2, "pads": (pad,) * 4}
        if self.is_so():
            size = (6, 9)
            places = ((n + 2 * pad - k) // stride + 1 for n, k in zip(size, kernel, strict=True))
            left = self.operand("left", (2, *places, depth))
            right = self.operand("right", (depth, *kernel, channels // group))
            form = ops.TransposedConvolution
            return form(left, right, size=size, group=group, wide=True, dilation=(1, 1), **window)
        left = self.operand("left", (2, 5, 7, channels))
        right = self.operand("right", (depth, *kernel, channels // group))
        bias = self.bias(depth)
        return ops.Convolution(left, right, bias, group=group, wide=True, dilation=(1, 1), **window)

    def function(self) -> Function:
        node = self.mat_mul() if self.is_so() else self.convolution()
        assert node.type.kind is ElementKind.FLOAT32
        result: Value = self.b.emit(node)
        if self.is_so():  # in the epilogue of the kernel
            result = self.b.emit(ops.Relu(result))
        self.b.save(result, "y")
        return self.b.function()


def check(found: Array, wanted: Array) -> None:
    assert found.dtype == wanted.dtype == np.float32
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=10 * TOLERANCE)


@settings(max_examples=25)
@given(st.data())
def test_all_forms_of_the_cpu_mean_the_same(data: st.DataObject) -> None:
    """Text, lowering, columns of transposed convolutions, and what kernels are chosen for."""
    drawing = Drawing(data)
    function = drawing.function()
    (wanted,) = evaluate(function, drawing.feeds).values()
    assert str(parse_function(str(function))) == str(function)
    columns = rewrite(function, as_columns, ops.TransposedConvolution)
    for form in (function, columns):
        made = lower(form, lambda node: isinstance(node, ops.TransposedConvolution))
        for each in (lower(form), made, *_selected(made)):
            (found,) = evaluate(each, drawing.feeds).values()
            check(found, wanted)


def _selected(function: Function) -> list[Function]:
    targets = (Target.host(lanes) for lanes in (8, 16))
    return [
        select_packed_operators(function, target=replace(each, features="", cpu="x86-64"))
        for each in targets
    ]


@pytest.mark.jit
@settings(max_examples=settings().max_examples // 8)
@given(st.data())
def test_every_backend_computes_wide_products(data: st.DataObject) -> None:
    drawing = Drawing(data)
    function = drawing.function()
    (wanted,) = evaluate(function, drawing.feeds).values()
    for backend, threads in (("interpreter", 1), ("cpu", 1), ("cpu", 2)):
        net = glow_nb.compile(function, backend=backend, threads=threads)
        (found,) = net.run(drawing.feeds).values()
        check(found, wanted)
