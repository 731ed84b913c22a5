"""Functions that are exported."""

from __future__ import annotations

from typing import Any

import numpy as np

from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Function


def dense() -> Function:
    """Return ``y = relu(x w)``."""
    b = Builder("dense")
    x, w = b.input("x", "float32<2 x 3>"), b.constant("w", np.eye(3, dtype=np.float32))
    b.save(b.emit(ops.Relu(b.emit(ops.MatMul(x, w), "product"))), "y")
    return b.function()


def of(node_class: Any, *types: str, **attributes: Any) -> Function:
    """Return a function of one node."""
    b = Builder()
    node = b.emit(node_class(*(b.input("x", type) for type in types), **attributes))
    for index, value in enumerate(node.results):
        b.save(value, f"y{index}")
    return b.function()
