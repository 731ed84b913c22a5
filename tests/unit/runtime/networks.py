"""Networks that the tests of the runtime cut up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Function, Value
from glow_nb.hlir.ops import Add, Concat, MatMul, Softmax, Tanh
from glow_nb.runtime.devices.device_description import DeviceDescription


def product(builder: Builder, x: Value, width: int, name: str = "") -> Value:
    """Return *x* times a matrix of *width* columns, squeezed."""
    depth = x.type.shape[-1]
    random = np.random.default_rng(len(builder.nodes))
    weights = builder.constant("w", random.standard_normal((depth, width), np.float32) / depth)
    made = builder.emit(MatMul(x, weights))
    return builder.emit(Tanh(made, name=name))


def chain(widths: Sequence[int], rows: int = 4) -> Function:
    """Return products one after the other, called ``layer0``, ``layer1``, ..."""
    b = Builder("chain")
    x: Value = b.input("x", f"float32<{rows} x {widths[0]}>")
    for index, width in enumerate(widths[1:]):
        x = product(b, x, width, f"layer{index}")
    b.save(x, "y")
    return b.function()


def branches(count: int, width: int, rows: int = 4) -> Function:
    """Return products side by side, called ``branch0``, ``branch1``, ..., and one of all."""
    b = Builder("branches")
    x = b.input("x", f"float32<{rows} x {width}>")
    stem = product(b, x, width, "stem")
    made = [product(b, stem, width, f"branch{index}") for index in range(count)]
    b.save(product(b, b.emit(Concat(tuple(made), 1)), width // 4, "join"), "y")
    return b.function()


def residual(width: int, depth: int = 3, rows: int = 4) -> Function:
    """Return blocks of two products each, with a sum around them, and a softmax."""
    b = Builder("residual")
    x: Value = b.input("x", f"float32<{rows} x {width}>")
    for index in range(depth):
        inner = product(b, x, 2 * width, f"up{index}")
        x = b.emit(Add(x, product(b, inner, width, f"down{index}"), name=f"sum{index}"))
    b.save(b.emit(Softmax(x, axis=1)), "y")
    return b.function()


def devices(count: int, **changes: Any) -> list[DeviceDescription]:
    """Return *count* devices that are alike, called ``d0``, ``d1``, ..."""
    return [DeviceDescription(f"d{index}", **changes) for index in range(count)]
