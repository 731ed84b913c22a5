"""A graph that is broken gives one error of ours, with the place and the remedy."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper

from glow_nb.base.errors import UnsupportedError
from glow_nb.formats.onnx.importer import import_onnx
from glow_nb.hlir.evaluate import evaluate
from glow_nb.hlir.parse import parse_function
from glow_nb.hlir.print import print_function
from glow_nb.hlir.verify import verify
from tests.unit.formats.onnx.importer.complaints import complaint
from tests.unit.formats.onnx.importer.models import FLOAT, model, one, value, weight


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
