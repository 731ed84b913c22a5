"""An operator that is unknown, or used in a wrong way, gives one error of ours with its place."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from glow_nb.base.errors import UnsupportedError
from glow_nb.formats.onnx.importer import import_onnx
from glow_nb.hlir.evaluate import evaluate
from tests.unit.formats.onnx.importer.bombs import chain_of_functions
from tests.unit.formats.onnx.importer.complaints import complaint
from tests.unit.formats.onnx.importer.models import model, one, value, weight


def test_opset_of_the_future() -> None:
    message = complaint(one("Relu", opset=999), UnsupportedError)
    assert message.startswith("<model>: opset 999 is newer than")


@pytest.mark.parametrize("opset", [0, -3, 1 << 40])
def test_number_that_is_no_opset(opset: int) -> None:
    assert f"{opset} is no version of operator set ''" in complaint(one("Relu", opset=opset))


def test_old_operator_that_changed_is_unsupported() -> None:
    message = complaint(one("Add", ("x", "x"), opset=6), UnsupportedError)
    assert "ai.onnx Add (opset 6): it means something else since opset 7; convert" in message
    import_onnx(one("Relu", opset=6))


def test_newer_ir_version() -> None:
    proto = one("Relu")
    proto.ir_version = 1000
    assert "IR version 1000 is newer" in complaint(proto, UnsupportedError)


def test_no_opset() -> None:
    proto = one("Relu")
    del proto.opset_import[:]
    assert "imports no operator set" in complaint(proto)


def test_all_unsupported_operators_are_listed_at_once() -> None:
    nodes = [
        helper.make_node("Frobnicate", ["x"], ["a"], name="frob"),
        helper.make_node("Frobnicate", ["a"], ["b"]),
        helper.make_node("Gizmo", ["b"], ["c"], name="giz", domain="com.acme"),
        helper.make_node("TfIdfVectorizer", ["x"], ["d"], name="count"),
        helper.make_node("Relu", ["c"], ["y"]),
    ]
    message = complaint(model(nodes), UnsupportedError)
    assert message.splitlines() == [
        "<model>: 3 operators it uses are not supported:",
        "    ai.onnx Frobnicate (opset 17): the operator set has no such operator; 2 nodes, "
        "the first node 'frob' (Frobnicate)",
        "    com.acme Gizmo (opset 0): domain 'com.acme' is not known "
        "(register it with glow_nb.extend.onnx_operator or imports; on the command line: --import "
        "FILE.py); 1 node, the first node 'giz' (com.acme.Gizmo)",
        "    ai.onnx TfIdfVectorizer (opset 17): there is no import rule for it "
        "(glow_nb.extend.imports registers a rule; on the command line: --import FILE.py); 1 node, "
        "the first node 'count' (TfIdfVectorizer)",
    ]


def test_operator_of_a_later_opset() -> None:
    message = complaint(one("Gelu", opset=13), UnsupportedError)
    assert "ai.onnx Gelu (opset 13): the operator set has no such operator" in message


def test_unknown_attribute_suggests_the_right_one() -> None:
    message = complaint(one("LeakyRelu", alhpa=0.5))
    assert "it has no attribute 'alhpa' in opset 17; did you mean 'alpha'?" in message


def test_attribute_of_wrong_type() -> None:
    assert "attribute 'alpha' must be FLOAT, it is STRING" in complaint(
        one("LeakyRelu", alpha="large")
    )


def test_too_many_operands() -> None:
    message = complaint(one("Relu", ("x", "x")))
    assert "it has 2 operands, 1 are right in opset 17" in message


def test_absent_operand() -> None:
    assert "operand 1 is missing" in complaint(one("Add", ("x", "")))


def test_function_that_calls_itself() -> None:
    opsets = [helper.make_opsetid("local", 1), helper.make_opsetid("", 17)]
    body = [helper.make_node("Loopy", ["a"], ["b"], domain="local")]
    function = helper.make_function("local", "Loopy", ["a"], ["b"], body, opsets)
    nodes = [helper.make_node("Loopy", ["x"], ["y"], domain="local")]
    broken = model(nodes, functions=[function], opset_imports=opsets)
    assert "the function calls itself" in complaint(broken)


def test_functions_that_call_each_other_too_deep() -> None:
    assert "functions call each other 32 deep" in complaint(chain_of_functions(500, 1))


@pytest.mark.parametrize("depth", [np.nan, np.inf, -1.0, [2.0, 3.0], []])
def test_depth_of_one_hot_must_be_a_size(depth: object) -> None:
    weights = [weight("d", np.array(depth, np.float32)), weight("v", np.zeros(2, np.float32))]
    inputs = [value("x", (3,), TensorProto.INT64)]
    message = complaint(one("OneHot", ("x", "d", "v"), inputs=inputs, weights=weights))
    assert "must be one number of 0 or more" in message


def test_integers_are_not_multiplied_by_fractions() -> None:
    inputs = [value("x", (2, 2), TensorProto.INT32)]
    message = complaint(one("Gemm", ("x", "x"), inputs=inputs, alpha=0.5), UnsupportedError)
    assert "factor 0.5 on int32" in message


def body(inputs: str, outputs: str) -> onnx.GraphProto:
    """Return a body that gives the last of its inputs as each of its outputs."""
    nodes = [helper.make_node("Identity", [inputs[-1]], [name]) for name in outputs]
    first, last = (
        [helper.make_empty_tensor_value_info(name) for name in names] for names in (inputs, outputs)
    )
    return helper.make_graph(nodes, "body", first, last)


@pytest.mark.parametrize(
    ("outputs", "attributes", "expected"),
    [
        ("s", {"scan_input_directions": [0, 1]}, "scan_input_directions [0, 1] must be 1 numbers"),
        ("s", {"scan_input_directions": [2]}, "must be 1 numbers, each 0 or 1"),
        ("st", {"scan_output_directions": [0, 0]}, "must be 1 numbers, each 0 or 1"),
        ("", {}, "its graph has 0 outputs, it must have 1 or more"),
    ],
)
def test_bad_scans(outputs: str, attributes: dict[str, Any], expected: str) -> None:
    results = list("yz"[: max(len(outputs), 1)])
    scan = helper.make_node(
        "Scan", ["a", "x"], results, num_scan_inputs=1, body=body("ae", outputs), **attributes
    )
    start = weight("a", np.zeros(3, np.float32))
    assert expected in complaint(model([scan], outputs=results, weights=[start]))


@pytest.mark.parametrize(
    ("steps", "outputs", "expected"),
    [
        (np.zeros(0, np.int64), "cs", "the number of steps must be one number, it is []"),
        ([2, 3], "cs", "the number of steps must be one number, it is [2, 3]"),
        (2.5, "cs", "the number of steps must be a list of integers"),
        (2, "", "its graph has 0 outputs, it must have 2 or more"),
        (2, "c", "its graph has 1 outputs, it must have 2 or more"),
    ],
)
def test_bad_loops(steps: object, outputs: str, expected: str) -> None:
    loop = helper.make_node("Loop", ["n", "", "x"], ["y"], body=body("ibx", outputs))
    assert expected in complaint(model([loop], weights=[weight("n", np.array(steps))]))


@pytest.mark.parametrize(
    ("op", "operands", "expected"),
    [
        ("MelWeightMatrix", "nnnxx", "'num_mel_bins' must be a list of integers"),
        ("NonMaxSuppression", "xxn", "the number of boxes must be a list of integers"),
        ("Gather", "xn", "float32<1>"),
        ("GatherElements", "xn", "float32<1>"),
        ("ScatterElements", "xnn", "float32<1>"),
        ("ScatterND", "xnn", "float32<1>"),
    ],
)
@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_numbers_that_are_no_integers(op: str, operands: str, expected: str, number: float) -> None:
    shape = (1, 1, 4) if op == "NonMaxSuppression" else (1,)
    weights = [weight("n", np.array([number], np.float32))]
    assert expected in complaint(one(op, operands, inputs=[value("x", shape)], weights=weights))


def test_integers_beyond_int64_are_counted() -> None:
    limits = [np.uint64(2**64 - 3), np.uint64(2**64 - 1), np.uint64(1)]
    weights = [weight(name, np.array(number)) for name, number in zip("abc", limits, strict=True)]
    function = import_onnx(one("Range", "abc", weights=weights))
    (results,) = evaluate(function, {"x": np.zeros((2, 3), np.float32)}).values()
    assert results.tolist() == [2**64 - 3, 2**64 - 2]


@pytest.mark.parametrize(
    ("parts", "length", "attributes", "words"),
    [
        (2, None, {"onesided": 1}, "must end in 1 with inverse=0 and onesided=1"),
        (1, None, {"onesided": 1, "inverse": 1}, "must end in 2 with inverse=1 and onesided=1"),
        (3, None, {}, "must end in 1 or 2 with inverse=0 and onesided=0"),
        (1, None, {"axis": 2}, "axis 2 of input %x : float32<2 x 8 x 1> is the last one"),
        (1, [8, 9], {}, r"'dft_length' must be one number, it is [8, 9]"),
        (1, [], {}, r"'dft_length' must be one number, it is []"),
    ],
)
def test_fourier_transform_of_what_has_none(
    parts: int, length: list[int] | None, attributes: dict[str, int], words: str
) -> None:
    """Half a spectrum is all of that of real numbers alone."""
    weights = [] if length is None else [weight("n", np.array(length, np.int64))]
    names = ("x", *(each.name for each in weights))
    inputs = [value("x", (2, 8, parts))]
    assert words in complaint(one("DFT", names, inputs=inputs, weights=weights, **attributes))
