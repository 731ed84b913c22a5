"""Products of short integers mean the same in NumPy, the interpreter and machine code."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typing_extensions import override

import glow_nb
from glow_nb.backends.cpu.select_packed_operators import select_packed_operators
from glow_nb.base.types import Array, ElementKind
from glow_nb.hlir import ops
from glow_nb.hlir.evaluate import evaluate
from glow_nb.hlir.graph import Node, Value
from glow_nb.kernels.target import Target
from tests.property.drawn_products import DrawnProduct

KINDS = [ElementKind(name) for name in ("int8", "uint8", "int16", "uint16", "int32")]


class IntegerProduct(DrawnProduct):
    """A product of integers of the whole range of their kinds, each operand of its own kind."""

    @override
    def numbers(self, shape: tuple[int, ...], *, is_fixed: bool) -> Array:
        kind = self.data.draw(st.sampled_from(KINDS))
        limits = np.iinfo(kind.dtype)
        numbers = self.random.integers(limits.min, limits.max, shape, kind.dtype, endpoint=True)
        can_be_pairs = is_fixed and self.is_so()  # as weights of half the range can
        return numbers // 2 if can_be_pairs else numbers

    @override
    def bias(self, size: int) -> Value:
        return self.b.constant("bias", self.random.integers(-9999, 9999, size, np.int32))

    @override
    def convolution(self) -> Node:
        window = self.window()
        input = self.operand("input", (2, 5, 7, window.channels))
        filter = self.operand("filter", window.filter_shape, is_fixed=self.is_so())
        if not window.pad and self.is_so():  # of a number that counts as zero
            around, number = (0, 1, 2, 0, 0, 1, 0, 0), self.data.draw(st.integers(0, 127))
            input = self.b.emit(ops.Pad(input, around, value=float(number)))
        numbers = input.type.kind.limits
        pad_value = self.data.draw(st.integers(*numbers)) if self.is_so() else 0
        bias = self.bias(window.depth)
        return ops.Convolution(input, filter, bias, pad_value=pad_value, **window.attributes)

    @override
    def finished(self, result: Value) -> Value:
        """Return numbers of ``float32`` to a scale."""
        scale = self.b.constant("scale", np.full((1,) * result.type.rank, 2**-12, np.float32))
        return self.b.emit(ops.Mul(self.b.emit(ops.ConvertTo(result, ElementKind.FLOAT32)), scale))


PROCESSORS = [
    ("+sse2", 8),
    ("+sse2,+avx,+avx2", 8),
    ("+sse2,+avx,+avx2,+avxvnni", 8),
    ("+sse2,+avx,+avx2,+avx512f,+avx512bw,+avx512vl,+avx512vnni", 16),
]
"""Features and lanes."""


@settings(max_examples=15)
@given(st.data())
def test_what_any_processor_multiplies_means_the_same(data: st.DataObject) -> None:
    drawing = IntegerProduct(data)
    function = drawing.function()
    (wanted,) = evaluate(function, drawing.feeds).values()
    for features, lanes in PROCESSORS:
        target = replace(Target.host(lanes), cpu="x86-64", features=features)
        made = select_packed_operators(function, target=target)
        (found,) = evaluate(made, drawing.feeds).values()
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.jit
@settings(max_examples=settings().max_examples // 10)
@given(st.data())
def test_every_backend_gives_the_same_integers(data: st.DataObject) -> None:
    drawing = IntegerProduct(data)
    function = drawing.function()
    (wanted,) = evaluate(function, drawing.feeds).values()
    for backend, threads in (("interpreter", 1), ("cpu", 1), ("cpu", 2)):
        net = glow_nb.compile(function, backend=backend, threads=threads)
        (found,) = net.run(drawing.feeds).values()
        np.testing.assert_array_equal(found, wanted)
        assert found.dtype == wanted.dtype
