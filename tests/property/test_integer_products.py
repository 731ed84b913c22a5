"""Products of short integers mean the same in NumPy, the interpreter and machine code."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import glow_nb
from glow_nb.backends.cpu.select_packed_operators import select_packed_operators
from glow_nb.base.types import Array, ElementKind, TensorType
from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.evaluate import evaluate
from glow_nb.hlir.graph import Function, Node, Value
from glow_nb.kernels.target import Target

KINDS = [ElementKind(name) for name in ("int8", "uint8", "int16", "uint16", "int32")]
SIZES = st.one_of(st.integers(1, 9), st.sampled_from([0, 16, 31, 33, 70]))


class Drawing:
    """Draws a graph of one product, its operands, and what comes after it.

    Attributes:
        data: What draws.
        b: The graph.
        feeds: Numbers of the inputs, of the whole range of their kinds.
    """

    def __init__(self, data: st.DataObject) -> None:
        self.data, self.b = data, Builder()
        self.random = np.random.default_rng(data.draw(st.integers(0, 99)))
        self.feeds: dict[str, Array] = {}

    def is_so(self) -> bool:
        return self.data.draw(st.booleans())

    def size(self) -> int:
        return self.data.draw(SIZES)

    def operand(self, name: str, shape: tuple[int, ...], *, is_fixed: bool = False) -> Value:
        """Return an operand of a drawn kind, which may lie transposed."""
        kind = self.data.draw(st.sampled_from(KINDS))
        limits = np.iinfo(kind.dtype)
        is_transposed = self.is_so()
        lies = (*shape[:-2], shape[-1], shape[-2]) if is_transposed else shape
        numbers = self.random.integers(limits.min, limits.max, lies, kind.dtype, endpoint=True)
        if is_fixed and self.is_so():  # weights that can be pairs
            numbers = numbers // 2
        value: Value
        if is_fixed:
            value = self.b.constant(name, numbers)
        else:
            value = self.b.input(name, TensorType.of(numbers))
            self.feeds[name] = numbers
        if not is_transposed:
            return value
        rank = len(shape)
        return self.b.emit(ops.Transpose(value, (*range(rank - 2), rank - 1, rank - 2)))

    def sums(self, name: str, size: int) -> Value:
        """Return int32 numbers to add."""
        return self.b.constant(name, self.random.integers(-9999, 9999, size, np.int32))

    def mat_mul(self) -> Node:
        batch = self.data.draw(st.sampled_from([(), (), (1,), (3,), (2, 2)]))
        rows, inner, depth = self.size(), self.size(), self.size()
        lhs = self.operand("lhs", (*batch, rows, inner))
        shape = (*(() if self.is_so() else batch), inner, depth)
        rhs = self.operand("rhs", shape, is_fixed=self.is_so())
        if not batch and self.is_so():
            return ops.FullyConnected(lhs, rhs, self.sums("bias", depth))
        return ops.MatMul(lhs, rhs)

    def convolution(self) -> Node:
        group = self.data.draw(st.sampled_from([1, 1, 2, 6]))
        channels = group * self.data.draw(st.integers(1, 4))
        depth = group * self.data.draw(st.integers(1, 3))
        kernel = self.data.draw(st.sampled_from([(1, 1), (3, 3), (2, 3)]))
        pad, stride = self.data.draw(st.integers(0, 1)), self.data.draw(st.integers(1, 2))
        input = self.operand("input", (2, 5, 7, channels))
        filter = self.operand("filter", (depth, *kernel, channels // group), is_fixed=self.is_so())
        if not pad and self.is_so():  # of a number that counts as zero
            around, number = (0, 1, 2, 0, 0, 1, 0, 0), self.data.draw(st.integers(0, 127))
            input = self.b.emit(ops.Pad(input, around, value=float(number)))
        numbers = input.type.kind.limits
        pad_value = self.data.draw(st.integers(*numbers)) if self.is_so() else 0
        return ops.Convolution(
            input,
            filter,
            self.sums("bias", depth),
            kernel=kernel,
            stride=(stride, stride),
            pads=(pad,) * 4,
            dilation=(1, 1),
            group=group,
            pad_value=pad_value,
        )

    def function(self) -> Function:
        node = self.mat_mul() if self.is_so() else self.convolution()
        result: Value = self.b.emit(node)
        if self.is_so():  # in the epilogue of the kernel
            scale = self.b.constant("scale", np.full((1,) * result.type.rank, 2**-12, np.float32))
            real = self.b.emit(ops.ConvertTo(result, ElementKind.FLOAT32))
            result = self.b.emit(ops.Mul(real, scale))
        self.b.save(result, "y")
        return self.b.function()


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
    drawing = Drawing(data)
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
    drawing = Drawing(data)
    function = drawing.function()
    (wanted,) = evaluate(function, drawing.feeds).values()
    for backend, threads in (("interpreter", 1), ("cpu", 1), ("cpu", 2)):
        net = glow_nb.compile(function, backend=backend, threads=threads)
        (found,) = net.run(drawing.feeds).values()
        np.testing.assert_array_equal(found, wanted)
        assert found.dtype == wanted.dtype
