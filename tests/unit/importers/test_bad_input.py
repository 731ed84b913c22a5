"""Every way a model can be broken gives one error of ours, with the place and the remedy."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from glow_nb.errors import ModelError, UnsupportedError
from glow_nb.hlir.evaluate import evaluate
from glow_nb.hlir.parse import parse_function
from glow_nb.hlir.print import print_function
from glow_nb.hlir.verify import verify
from glow_nb.importers import import_onnx
from tests.unit.importers.models import FLOAT, model, one, value, weight


def complaint(broken: object, error: type[Exception] = ModelError) -> str:
    """Return the message of the error that importing *broken* raises."""
    with pytest.raises(error) as caught:
        import_onnx(broken)  # type: ignore[arg-type]
    assert type(caught.value) is error
    return str(caught.value)


def test_missing_file_is_named(tmp_path: Path) -> None:
    path = str(tmp_path / "nothing.onnx")
    assert complaint(path) == f"{path}: cannot be read: No such file or directory; check the path"


def test_directory_is_no_model(tmp_path: Path) -> None:
    assert "cannot be read: Is a directory" in complaint(tmp_path)


def test_empty_file_says_so(tmp_path: Path) -> None:
    path = tmp_path / "empty.onnx"
    path.write_bytes(b"")
    expected = "it is empty, not an ONNX model; export or download it again"
    assert complaint(path) == f"{path}: {expected}"


@pytest.mark.parametrize("large", [False, True])
def test_truncated_file_never_imports(tmp_path: Path, large: bool) -> None:
    numbers = np.ones((3, 1000 if large else 3), np.float32)
    whole = one("MatMul", ("x", "w"), weights=[weight("w", numbers)]).SerializeToString()
    path = tmp_path / "cut.onnx"
    for length in range(1, len(whole), max(len(whole) // 97, 1)):
        path.write_bytes(whole[:length])
        assert str(path) in complaint(path)


def test_random_bytes_are_no_model() -> None:
    source = random.Random(7)
    for length in [1, 2, 5, 17, 100, 5000] * 20:
        assert "<model>" in complaint(source.randbytes(length))


def test_text_is_no_model(tmp_path: Path) -> None:
    path = tmp_path / "readme.onnx"
    path.write_text("This is not a model.\n")
    assert "not an ONNX model" in complaint(path)


def test_cycle_is_shown() -> None:
    nodes = [
        helper.make_node("Add", ["x", "b"], ["a"], name="first"),
        helper.make_node("Relu", ["a"], ["b"], name="second"),
    ]
    message = complaint(model(nodes, outputs=["b"]))
    assert "read each other in a circle" in message
    assert "node 'first' (Add)" in message
    assert "node 'second' (Relu)" in message


def test_node_order_does_not_matter() -> None:
    nodes = [helper.make_node("Neg", ["a"], ["y"]), helper.make_node("Relu", ["x"], ["a"])]
    assert [node.opcode for node in import_onnx(model(nodes))] == ["relu", "neg", "save"]


def test_missing_input_is_named_with_the_closest() -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["hidden"]),
        helper.make_node("Neg", ["hiden"], ["y"], name="last"),
    ]
    message = complaint(model(nodes))
    assert "node 'last' (Neg) reads 'hiden', which no input, weight or node defines" in message
    assert "did you mean 'hidden'?" in message


def test_missing_output_is_named() -> None:
    nodes = [helper.make_node("Relu", ["x"], ["y"])]
    assert "output 'z': no node computes it" in complaint(model(nodes, outputs=["z"]))


def test_two_nodes_with_one_output() -> None:
    nodes = [helper.make_node("Relu", ["x"], ["y"]), helper.make_node("Neg", ["x"], ["y"])]
    assert "two things are called 'y'" in complaint(model(nodes))


def test_node_that_redefines_an_input() -> None:
    nodes = [helper.make_node("Relu", ["x"], ["x"])]
    assert "two things are called 'x'" in complaint(model(nodes, outputs=["x"]))


def test_two_inputs_with_one_name() -> None:
    nodes = [helper.make_node("Relu", ["x"], ["y"])]
    assert "two inputs are called 'x'" in complaint(model(nodes, [value("x"), value("x")]))


def test_two_weights_with_one_name() -> None:
    weights = [weight("w", np.ones(3, np.float32))] * 2
    assert "weight 'w': it is defined twice" in complaint(one("Add", ("x", "w"), weights=weights))


def test_wrong_rank_weight_names_the_node_and_both_shapes() -> None:
    weights = [weight("w", np.ones((4, 3, 3), np.float32))]
    message = complaint(one("Conv", ("x", "w"), inputs=[value("x", (1, 3, 8, 8))], weights=weights))
    assert "node 'y' (Conv)" in message
    assert "float32<4 x 3 x 3>" in message
    assert "float32<1 x 3 x 8 x 8>" in message


def test_wrong_inner_size_names_both() -> None:
    message = complaint(one("MatMul", ("x", "w"), weights=[weight("w", np.ones((4, 5), "f4"))]))
    assert "float32<2 x 3>" in message
    assert "float32<4 x 5>" in message


def test_wrong_kind_of_operand() -> None:
    message = complaint(one("Add", ("x", "w"), weights=[weight("w", np.ones((2, 3), "f8"))]))
    assert "element kinds differ" in message


def test_huge_shape_is_refused() -> None:
    message = complaint(one("Relu", inputs=[value("x", (1 << 20, 1 << 20))]))
    assert "input 'x'" in message
    assert "check the shape" in message


def test_huge_weight_is_refused() -> None:
    huge = TensorProto(name="w", data_type=FLOAT, dims=[1 << 20, 1 << 20])
    assert "weight 'w': its shape" in complaint(one("Add", ("x", "w"), weights=[huge]))


@pytest.mark.parametrize("op", ["ConstantOfShape", "Expand", "Tile", "Range"])
def test_huge_result_is_refused(op: str) -> None:
    many = np.array([1 << 20, 1 << 20], np.int64)
    operands: tuple[str, ...] = ("n",)
    weights = [weight("n", many)]
    if op in ("Expand", "Tile"):
        operands, weights = ("w", "n"), [weight("w", np.ones((1, 1), "f4")), *weights]
    if op == "Range":
        operands = ("a", "b", "c")
        numbers = zip("abc", (0, 1 << 40, 1), strict=True)
        weights = [weight(n, np.array(v, np.int64)) for n, v in numbers]
    assert "node 'y'" in complaint(one(op, operands, weights=weights))


def test_negative_dimension_of_weight() -> None:
    broken = TensorProto(name="w", data_type=FLOAT, dims=[-3])
    assert "is not one a tensor can have" in complaint(one("Add", ("x", "w"), weights=[broken]))


def test_weight_with_too_few_bytes() -> None:
    broken = TensorProto(name="w", data_type=FLOAT, dims=[3], raw_data=b"12345678")
    message = complaint(one("Add", ("x", "w"), weights=[broken]))
    assert "it has 8 bytes of data, its type float32 and shape [3] need 12" in message


def test_weight_with_too_few_numbers() -> None:
    broken = TensorProto(name="w", data_type=FLOAT, dims=[3], float_data=[1.0])
    message = complaint(one("Add", ("x", "w"), weights=[broken]))
    assert "do not make a float32 tensor of shape [3]" in message


def test_weight_of_unknown_type() -> None:
    broken = TensorProto(name="w", data_type=99, dims=[3])
    assert "99 is not an ONNX element type" in complaint(one("Add", ("x", "w"), weights=[broken]))


def test_string_weight_is_unsupported() -> None:
    words = TensorProto(name="w", data_type=TensorProto.STRING, dims=[1], string_data=[b"word"])
    message = complaint(one("Add", ("x", "w"), weights=[words]), UnsupportedError)
    assert "element type string is not supported" in message


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
        helper.make_node("Multinomial", ["x"], ["d"], name="draw"),
        helper.make_node("Relu", ["c"], ["y"]),
    ]
    message = complaint(model(nodes), UnsupportedError)
    assert message.splitlines() == [
        "<model>: 3 operators it uses are not supported:",
        "    ai.onnx Frobnicate (opset 17): the operator set has no such operator; 2 nodes, "
        "the first node 'frob' (Frobnicate)",
        "    com.acme Gizmo (opset 0): domain 'com.acme' is not known; 1 node, "
        "the first node 'giz' (com.acme.Gizmo)",
        "    ai.onnx Multinomial (opset 17): there is no import rule for it; 1 node, "
        "the first node 'draw' (Multinomial)",
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


def chain_of_functions(count: int, calls: int) -> onnx.ModelProto:
    """Return a model whose functions each call the next one, *calls* times."""
    opsets = [helper.make_opsetid("local", 1), helper.make_opsetid("", 17)]
    functions = []
    for index in range(count):
        op, domain = (f"F{index + 1}", "local") if index + 1 < count else ("Relu", "")
        body = [helper.make_node(op, ["a"], [f"b{i}"], domain=domain) for i in range(calls)]
        functions.append(helper.make_function("local", f"F{index}", ["a"], ["b0"], body, opsets))
    nodes = [helper.make_node("F0", ["x"], ["y"], domain="local")]
    return model(nodes, functions=functions, opset_imports=opsets)


def test_functions_that_call_each_other_too_deep() -> None:
    assert "functions call each other 32 deep" in complaint(chain_of_functions(500, 1))


def test_functions_that_multiply(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("glow_nb.importers.onnx.graph.MAX_NODES", 1000)
    assert "make more than 1000 nodes" in complaint(chain_of_functions(30, 2))


NASTY = [
    'quo"te',
    "new\nline",
    "../../etc/passwd",
    "a/b\\c",
    "__import__('os').system('true')",
    "%x : float32<>",
    "tab\there \N{SNOWMAN}",
    "",
]


@pytest.mark.parametrize("name", NASTY[:-1])
def test_any_name_works(name: str) -> None:
    nodes = [
        helper.make_node("Add", [name, name + "w"], [name + "h"], name=name),
        helper.make_node("Relu", [name + "h"], [name + "o"], name=name),
    ]
    weights = [weight(name + "w", np.full((2, 3), -1, np.float32))]
    function = import_onnx(model(nodes, [value(name)], [name + "o"], weights))
    verify(function)
    text = print_function(function)
    assert print_function(parse_function(text, "<text>")) == text
    fed = np.arange(6, dtype=np.float32).reshape(2, 3)
    (result,) = evaluate(function, {name: fed}).items()
    assert result[0] == name + "o"
    assert result[1].tolist() == [[0, 0, 1], [2, 3, 4]]


def external(location: str, **entries: str) -> onnx.ModelProto:
    tensor = TensorProto(name="w", data_type=FLOAT, dims=[3], data_location=TensorProto.EXTERNAL)
    for key, text in {"location": location, **entries}.items():
        tensor.external_data.add(key=key, value=text)
    return one("Add", ("x", "w"), weights=[tensor])  # type: ignore[no-any-return]


def test_external_data_is_read(tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(b"skip" + np.array([1, 2, 3], "<f4").tobytes())
    onnx_path = tmp_path / "m.onnx"
    onnx_path.write_bytes(external("w.bin", offset="4", length="12").SerializeToString())
    (constant,) = import_onnx(onnx_path).constants
    assert constant.array.reshape(-1).tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ({"location": "none.bin"}, "cannot be read from 'none.bin': No such file or directory"),
        ({"location": "short.bin"}, "it has 8 bytes of data"),
        ({"location": "short.bin", "length": "12"}, "the file may be truncated"),
        ({"location": "short.bin", "offset": "1" * 19, "length": "12"}, "may be truncated"),
        ({"location": "short.bin", "offset": "-4"}, "is '-4', not a number"),
        ({"location": "../secret"}, "not a file in the model's folder"),
        ({"location": "/etc/hostname"}, "not a file in the model's folder"),
        ({"location": "link"}, "not a file in the model's folder"),
        ({"location": "."}, "not a file in the model's folder"),
        ({"location": "a\0b"}, "not a file in the model's folder"),
        ({"location": ""}, "not a file in the model's folder"),
    ],
)
def test_bad_external_data(tmp_path: Path, entries: dict[str, str], expected: str) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "secret").write_bytes(b"0" * 12)
    (folder / "short.bin").write_bytes(b"0" * 8)
    os.symlink(tmp_path / "secret", folder / "link")
    path = folder / "m.onnx"
    path.write_bytes(external(**entries).SerializeToString())
    message = complaint(path)
    assert f"{path}: weight 'w'" in message
    assert expected in message


def test_external_data_needs_a_path() -> None:
    assert "import the model by its path" in complaint(external("w.bin").SerializeToString())


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
