"""Recurrent layers stay one node of ONNX."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

import glow_nb
from glow_nb.base.schema import attributes_of
from glow_nb.formats.onnx.export import export_onnx
from glow_nb.formats.onnx.importer import import_onnx
from glow_nb.hlir.ops import RecurrentLayer
from tests.unit.formats.onnx.importer.models import model, value, weight

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
OPTIONS: list[tuple[str, dict[str, Any]]] = [
    ("LSTM", {"direction": "bidirectional", "input_forget": 1}),
    ("LSTM", {"activations": ["HardSigmoid", "Elu", "LeakyRelu"], "activation_alpha": [0.3]}),
    ("GRU", {"direction": "reverse", "linear_before_reset": 1, "clip": 0.5}),
    (
        "RNN",
        {
            "direction": "bidirectional",
            "activations": ["ScaledTanh"] * 2,
            "activation_alpha": [0.5, 0.5],
            "activation_beta": [0.25, 0.25],
        },
    ),
]


@pytest.mark.parametrize(("op", "options"), OPTIONS)
def test_layer_is_written_as_it_was_read(op: str, options: dict[str, Any]) -> None:
    steps, rows, features, size = 3, 2, 3, 4
    directions, width = 1 + (options.get("direction") == "bidirectional"), GATES[op] * size
    rng = np.random.default_rng(0)
    shapes = {
        "w": (directions, width, features),
        "r": (directions, width, size),
        "b": (directions, 2 * width),
    }
    weights = [weight(n, rng.uniform(-1, 1, s).astype(np.float32)) for n, s in shapes.items()]
    weights.append(weight("n", np.array([3, 2], np.int32)))
    outputs = ["y", "last", "memory"][: 3 if op == "LSTM" else 2]
    node = helper.make_node(op, ["x", "w", "r", "b", "n"], outputs, hidden_size=size, **options)
    inputs = [value("x", (steps, rows, features))]
    function = import_onnx(model([node], inputs, outputs, weights))
    proto = export_onnx(function)
    assert [node.op_type for node in proto.graph.node] == [op]
    again = import_onnx(proto)
    first, second = (
        next(n for n in each if isinstance(n, RecurrentLayer)) for each in (function, again)
    )
    assert attributes_of(first) == attributes_of(second)
    x = rng.uniform(-1, 1, (steps, rows, features)).astype(np.float32)
    wanted, found = (list(glow_nb.evaluate(f, {"x": x}).values()) for f in (function, again))
    for got, want in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(got, want)
