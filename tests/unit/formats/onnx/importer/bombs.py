"""Small models that make many nodes."""

from __future__ import annotations

import onnx
from onnx import TensorProto, helper

from tests.unit.formats.onnx.importer.models import model, value

OPSETS = [helper.make_opsetid("local", 1), helper.make_opsetid("", 17)]


def chain_of_functions(count: int, calls: int) -> onnx.ModelProto:
    """Return a model whose functions each call the next one, *calls* times."""
    functions = []
    for index in range(count):
        op, domain = (f"F{index + 1}", "local") if index + 1 < count else ("Relu", "")
        body = [helper.make_node(op, ["a"], [f"b{i}"], domain=domain) for i in range(calls)]
        functions.append(helper.make_function("local", f"F{index}", ["a"], ["b0"], body, OPSETS))
    nodes = [helper.make_node("F0", ["x"], ["y"], domain="local")]
    return model(nodes, functions=functions, opset_imports=OPSETS)


def chain_of_branches(count: int) -> onnx.ModelProto:
    """Return a model whose functions each call the next one in both branches of an If."""
    functions = []
    for index in range(count):
        last = index + 1 == count
        op, domain, operands = (
            ("Relu", "", ["a"]) if last else (f"F{index + 1}", "local", ["a", "c"])
        )
        call = helper.make_node(op, operands, ["r"], domain=domain)
        result = helper.make_empty_tensor_value_info("r")
        branch = helper.make_graph([call], "branch", [], [result])
        body = [helper.make_node("If", ["c"], ["b"], then_branch=branch, else_branch=branch)]
        functions.append(
            helper.make_function("local", f"F{index}", ["a", "c"], ["b"], body, OPSETS)
        )
    nodes = [helper.make_node("F0", ["x", "c"], ["y"], domain="local")]
    inputs = [value("x"), value("c", (), TensorProto.BOOL)]
    return model(nodes, inputs, functions=functions, opset_imports=OPSETS)


def loop_of_calls(op: str, steps: int, functions: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model with a Scan or Loop of *steps* that calls the first of *functions*.

    A "While" is a Loop that computes its condition.
    """
    info = helper.make_empty_tensor_value_info
    nodes = [helper.make_node("F0", ["s"], ["t"], domain="local")]
    if op == "Scan":
        ends = ["s", "e"], ["t"]
        node = helper.make_node("Scan", ["x", "x"], ["y"], num_scan_inputs=1)
        inputs = [value("x", (steps, 1))]
    else:
        ends = ["i", "g", "s"], ["g" if op == "Loop" else "h", "t"]
        if op == "While":
            nodes.append(helper.make_node("Or", ["g", "g"], ["h"]))
        node = helper.make_node("Loop", ["n", "", "x"], ["y"])
        inputs = [value("x", (2, 3))]
    names_in, names_out = ends
    body = helper.make_graph(nodes, "body", list(map(info, names_in)), list(map(info, names_out)))
    node.attribute.append(helper.make_attribute("body", body))
    limit = helper.make_tensor("n", TensorProto.INT64, (), [steps])
    made = model([node], inputs, weights=[limit], opset_imports=OPSETS)
    made.functions.extend(functions.functions)
    return made
