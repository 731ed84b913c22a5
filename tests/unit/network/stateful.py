"""Small networks with state."""

from __future__ import annotations

import numpy as np
import pytest

from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Function, State

ONES = np.ones(3, np.float32)
BACKENDS = ["interpreter", pytest.param("cpu", marks=pytest.mark.jit)]


def counter(total: State, name: str = "count") -> Function:
    """Return ``y = total``, ``total = total + x``."""
    b = Builder(name)
    x = b.input("x", "float32<3>")
    b.save(b.emit(ops.Relu(total)), "y")
    b.update(total, b.emit(ops.Add(total, x)))
    return b.function()


def twice(total: State, name: str = "twice") -> Function:
    """Return ``y = 2 total``."""
    b = Builder(name)
    b.save(b.emit(ops.Add(total, total)), "y")
    return b.function()


def new_total() -> State:
    """Return a state for either of them."""
    return State.of("total", np.zeros(3, np.float32))
