"""Wide products of 16-bit floats, with float32 results, mean the same everywhere."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typing_extensions import override

import glow_nb
from glow_nb.backends.cpu.select_packed_operators import select_packed_operators
from glow_nb.backends.cpu.transposed_convolutions import as_columns
from glow_nb.base.types import Array, ElementKind
from glow_nb.hlir import ops
from glow_nb.hlir.evaluate import evaluate
from glow_nb.hlir.graph import Function, Node, Value
from glow_nb.hlir.lower import lower
from glow_nb.hlir.parse import parse_function
from glow_nb.hlir.rewrite import rewrite
from glow_nb.kernels.target import Target
from tests.property.drawn_products import DrawnProduct

KINDS = [ElementKind.BFLOAT16, ElementKind.FLOAT16]
TOLERANCE = 2e-5
"""Of sums of float32 in any order, as a part of the sum of magnitudes (here at most a few 10)."""


class WideProduct(DrawnProduct):
    """A product of 16-bit floats."""

    def __init__(self, data: st.DataObject) -> None:
        super().__init__(data, wide=True)
        self.kind = data.draw(st.sampled_from(KINDS))

    @override
    def numbers(self, shape: tuple[int, ...], *, is_fixed: bool) -> Array:
        return self.random.standard_normal(shape).astype(self.kind.dtype)

    @override
    def bias(self, size: int) -> Value:
        return self.b.constant("bias", self.random.standard_normal(size).astype(np.float32))

    @override
    def convolution(self) -> Node:
        window = self.window()
        if self.is_so():
            size = (6, 9)
            pairs = zip(size, window.kernel, strict=True)
            places = ((n + 2 * window.pad - k) // window.step + 1 for n, k in pairs)
            left = self.operand("left", (2, *places, window.depth))
            right = self.operand("right", window.filter_shape, is_fixed=self.is_so())
            form = ops.TransposedConvolution
            return form(left, right, size=size, **window.attributes, **self.attributes)
        left = self.operand("left", (2, 5, 7, window.channels))
        right = self.operand("right", window.filter_shape, is_fixed=self.is_so())
        bias = self.bias(window.depth)
        return ops.Convolution(left, right, bias, **window.attributes, **self.attributes)

    @override
    def finished(self, result: Value) -> Value:
        return self.b.emit(ops.Relu(result))


def check(found: Array, wanted: Array) -> None:
    assert found.dtype == wanted.dtype == np.float32
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=10 * TOLERANCE)


@settings(max_examples=25)
@given(st.data())
def test_all_forms_of_the_cpu_mean_the_same(data: st.DataObject) -> None:
    """Text, lowering, columns of transposed convolutions, and what kernels are chosen for."""
    drawing = WideProduct(data)
    function = drawing.function()
    (wanted,) = evaluate(function, drawing.feeds).values()
    assert wanted.dtype == np.float32
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
    drawing = WideProduct(data)
    function = drawing.function()
    (wanted,) = evaluate(function, drawing.feeds).values()
    for backend, threads in (("interpreter", 1), ("cpu", 1), ("cpu", 2)):
        net = glow_nb.compile(function, backend=backend, threads=threads)
        (found,) = net.run(drawing.feeds).values()
        check(found, wanted)
