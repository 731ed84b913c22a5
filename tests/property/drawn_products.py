"""Graphs of one product, of matrices or of a convolution, as they are drawn for every kind."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

from glow_nb.base.types import Array, TensorType
from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Function, Node, Value

SIZES = st.one_of(st.integers(1, 9), st.sampled_from([0, 16, 31, 33, 70]))


@dataclass(frozen=True)
class Window:
    """The sizes of a drawn convolution."""

    group: int
    channels: int
    depth: int
    kernel: tuple[int, int]
    pad: int
    step: int

    @property
    def attributes(self) -> dict[str, Any]:
        """Attributes that every convolution has."""
        return {
            "kernel": self.kernel,
            "stride": (self.step, self.step),
            "pads": (self.pad,) * 4,
            "dilation": (1, 1),
            "group": self.group,
        }

    @property
    def filter_shape(self) -> tuple[int, ...]:
        return (self.depth, *self.kernel, self.channels // self.group)


class DrawnProduct(ABC):
    """Draws a graph of one product, its operands, and what comes after it.

    Attributes:
        data: What draws.
        b: The graph.
        feeds: Numbers of the inputs.
        attributes: What the operator of a product has beside its operands.
    """

    def __init__(self, data: st.DataObject, **attributes: Any) -> None:
        self.data, self.b, self.attributes = data, Builder(), attributes
        self.random = np.random.default_rng(data.draw(st.integers(0, 99)))
        self.feeds: dict[str, Array] = {}

    @abstractmethod
    def numbers(self, shape: tuple[int, ...], *, is_fixed: bool) -> Array:
        """Return numbers of an operand, which is a constant or is fed."""

    @abstractmethod
    def bias(self, size: int) -> Value:
        """Return numbers to add to the sums."""

    @abstractmethod
    def convolution(self) -> Node:
        """Return a convolution."""

    @abstractmethod
    def finished(self, result: Value) -> Value:
        """Return what is done with the *result* in the epilogue of the kernel."""

    def is_so(self) -> bool:
        return self.data.draw(st.booleans())

    def operand(self, name: str, shape: tuple[int, ...], *, is_fixed: bool = False) -> Value:
        """Return an operand, which may lie transposed."""
        is_transposed = self.is_so()
        lies = (*shape[:-2], shape[-1], shape[-2]) if is_transposed else shape
        numbers = self.numbers(lies, is_fixed=is_fixed)
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

    def mat_mul(self) -> Node:
        batch = self.data.draw(st.sampled_from([(), (), (1,), (3,), (2, 2)]))
        rows, inner, depth = (self.data.draw(SIZES) for _ in range(3))
        left = self.operand("left", (*batch, rows, inner))
        shape = (*(() if self.is_so() else batch), inner, depth)
        right = self.operand("right", shape, is_fixed=self.is_so())
        if left.type.rank == right.type.rank == 2 and self.is_so():
            return ops.FullyConnected(left, right, self.bias(depth), **self.attributes)
        return ops.MatMul(left, right, **self.attributes)

    def window(self) -> Window:
        group = self.data.draw(st.sampled_from([1, 1, 2, 6]))
        return Window(
            group,
            channels=group * self.data.draw(st.integers(1, 4)),
            depth=group * self.data.draw(st.integers(1, 3)),
            kernel=self.data.draw(st.sampled_from([(1, 1), (3, 3), (2, 3)])),
            pad=self.data.draw(st.integers(0, 1)),
            step=self.data.draw(st.integers(1, 2)),
        )

    def function(self) -> Function:
        node = self.mat_mul() if self.is_so() else self.convolution()
        result: Value = self.b.emit(node)
        if self.is_so():
            result = self.finished(result)
        self.b.save(result, "y")
        return self.b.function()
