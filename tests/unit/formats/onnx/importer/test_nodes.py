"""The nodes of a model as its file has them."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import helper, numpy_helper

from glow_nb.base.model_node import ModelNode
from glow_nb.formats.onnx.importer import model_nodes


def test_nodes_are_called_as_what_is_imported_calls_its_origin() -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["r"], name="named"),
        helper.make_node("Split", ["r"], ["", "second"]),
        helper.make_node("Gelu", ["second"], ["y"], domain="com.microsoft"),
    ]
    found = model_nodes(helper.make_graph(nodes, "g", [], []))
    assert found == [
        ModelNode("named", "Relu", ("x",), ("r",)),
        ModelNode("second", "Split", ("r",), ("", "second")),
        ModelNode("y", "com.microsoft.Gelu", ("second",), ("y",)),
    ]


def test_attributes_are_short_text() -> None:
    body = helper.make_graph([helper.make_node("Relu", ["x"], ["r"])], "body", [], [])
    tensor = numpy_helper.from_array(np.zeros((2, 3), np.float32))
    attributes: dict[str, Any] = {
        "alpha": 0.5,
        "axis": -1,
        "mode": b"\xffnearest",
        "pads": [0] * 100,
        "scales": [1.5, 2.0],
        "then_branch": body,
        "value": tensor,
        "names": ["a", "b"],
    }
    node = helper.make_node("Any", [], ["y"], **attributes)
    (found,) = model_nodes(helper.make_graph([node], "g", [], []))
    text = found.attributes
    assert "alpha = 0.5, axis = -1, mode = \ufffdnearest" in text
    assert "scales = [1.5, 2], then_branch = graph of 1 nodes, value = tensor [2, 3]" in text
    assert "names = strings" in text
    assert len(text) < 300
