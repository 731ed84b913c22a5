"""Gradients of graphs whose batch only the run knows: one program for all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from glow_nb.base.size import Symbol
from glow_nb.base.types import ElementKind, TensorType
from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.differentiate import differentiate
from glow_nb.hlir.graph import Function, Value
from glow_nb.hlir.ops.windows import Window
from tests.open_programs import check_sizes
from tests.targets import SMALL_CORE

FLOAT32 = ElementKind.FLOAT32
SETS = [{"b": 1, "h": 6, "w": 9}, {"b": 7, "h": 11, "w": 6}]
BATCHES = [{"b": 1}, {"b": 7}]


def _window(taps: int, stride: int, pad: int, rank: int) -> dict[str, Any]:
    return Window((taps,) * rank, (stride,) * rank, (pad,) * 2 * rank, (1,) * rank).attributes


def _convolved(
    builder: Builder, x: Value, depth: int, taps: int, stride: int = 1, group: int = 1
) -> Value:
    rank, channels = x.type.rank - 2, x.type.shape[-1]
    name = f"w{depth}_{taps}_{group}"
    filter = builder.input(name, TensorType(FLOAT32, (depth, *(taps,) * rank, channels // group)))
    bias = builder.constant("bias", np.zeros(depth, np.float32))
    window = _window(taps, stride, taps // 2, rank)
    return builder.emit(ops.Convolution(x, filter, bias, group=group, **window))


def _gradient(layers: Callable[[Builder, Value], Value], *sizes: int | str) -> Function:
    """Return the gradients of the sum of squares of what *layers* make of an input."""
    builder = Builder("gradient")
    opened = [
        Symbol(n, 4, 1 if n == "b" else 4, 64).size if isinstance(n, str) else n for n in sizes
    ]
    y = layers(builder, builder.input("x", TensorType(FLOAT32, tuple(opened))))
    squares = builder.emit(ops.Mul(y, y))
    axes = tuple(range(y.type.rank))
    builder.save(builder.emit(ops.ReduceSum(squares, axes=axes, keep_dims=False)), "loss")
    function = builder.function()
    return differentiate(function, [value.name for value in function.inputs])


def _network(builder: Builder, x: Value) -> Value:
    """Convolve, pool, convolve each channel."""
    x = _convolved(builder, x, 8, 3)
    x = builder.emit(ops.MaxPool(x, **_window(3, 2, 1, 2)))
    return _convolved(builder, x, 8, 3, group=8)


LAYERS: dict[str, tuple[Callable[[Builder, Value], Value], tuple[int | str, ...]]] = {
    "all sizes open": (_network, ("b", "h", "w", 4)),
    "strided": (lambda b, x: _convolved(b, x, 12, 3, 2), ("b", 9, 9, 5)),
    "pointwise": (lambda b, x: _convolved(b, x, 20, 1), ("b", 8, 8, 9)),
    "pointwise, strided": (lambda b, x: _convolved(b, x, 20, 1, 2), ("b", 7, 8, 9)),
    "groups": (lambda b, x: _convolved(b, x, 8, 3, 1, 2), ("b", 8, 8, 4)),
    "of lines": (lambda b, x: _convolved(b, x, 8, 3), ("b", 8, 4)),
    "each channel, strided": (lambda b, x: _convolved(b, x, 8, 3, 2, 8), ("b", 9, 9, 8)),
    "two results a channel": (lambda b, x: _convolved(b, x, 8, 3, 1, 4), ("b", 8, 8, 4)),
    "volumes": (lambda b, x: _convolved(b, x, 6, 3), ("b", 4, 5, 6, 4)),
}


@pytest.mark.jit
def test_one_program_has_the_gradients_of_all_batches() -> None:
    check_sizes(_gradient(_network, "b", 8, 8, 4), BATCHES[1:], target=SMALL_CORE, threads=2)


@pytest.mark.jit
@pytest.mark.slow
@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("threads", [1, 3])
def test_one_program_has_the_gradients_of_layers_of_all_sizes(name: str, threads: int) -> None:
    layers, sizes = LAYERS[name]
    check_sizes(_gradient(layers, *sizes), SETS if "h" in sizes else BATCHES, threads=threads)
