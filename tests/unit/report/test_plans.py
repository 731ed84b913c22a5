"""The candidates of layers on the page."""

from __future__ import annotations

import numpy as np

import glow_nb
from glow_nb.hlir.graph import Function
from glow_nb.hlir.ops import FullyConnected
from glow_nb.report.plans import alternatives_of


def product() -> Function:
    """Return a product called ``fc``."""
    builder = glow_nb.Builder("network")
    x = builder.input("x", "float32<4 x 32>")
    w = builder.constant("w", np.ones((32, 64), np.float32))
    b = builder.constant("b", np.zeros(64, np.float32))
    builder.save(builder.emit(FullyConnected(x, w, b), name="fc"), "y")
    return builder.function()


def test_layers_of_other_functions_may_be_named() -> None:
    plan = {"fc": "direct", "conv_of_another_function": "direct"}
    assert alternatives_of(product(), {"plan": plan}) == {}
    found = alternatives_of(product(), {"plan": plan, "is_whole": False})
    assert list(found) == ["fc"]
    assert [each.chosen for each in found["fc"]].count(True) == 1
