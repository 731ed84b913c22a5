"""The exported model: names, states, open sizes, operator sets, files, and what is refused."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from itertools import product
from typing import Any, Literal

import numpy as np
import onnx
import onnxruntime
import pytest
from typing_extensions import override

import glow_nb
from glow_nb.base.errors import (
    GlowError,
    OptionError,
    UnsupportedError,
    VerifyError,
)
from glow_nb.base.types import Array, ElementKind
from glow_nb.formats.onnx.exporter.registry import EXPORTS, can_write, expansions, exports_of
from glow_nb.formats.onnx.importer import import_onnx
from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.evaluate import evaluate
from glow_nb.hlir.graph import NODES, Constant, Function, Node, Placeholder, define_node
from glow_nb.hlir.ops.families import UnaryElementwise
from glow_nb.hlir.save import Save
from tests.unit.formats.onnx.exporter.exported import dense, of

ONES = np.ones((2, 3), np.float32)


def run(model: onnx.ModelProto, **feeds: Array) -> dict[str, Any]:
    onnx.checker.check_model(model, full_check=True)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    names = [output.name for output in model.graph.output]
    return dict(zip(names, session.run(names, feeds), strict=True))


def operators(model: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in model.graph.node]


def test_names_are_kept() -> None:
    graph = glow_nb.export_onnx(dense()).graph
    assert graph.name == "dense"
    assert [value.name for value in (*graph.input, *graph.output)] == ["x", "y"]
    assert [tensor.name for tensor in graph.initializer] == ["w"]
    assert [(node.name, *node.output) for node in graph.node] == [
        ("product", "product"),
        ("relu", "y"),
    ]


def test_every_operator_has_a_rule_or_is_composed_of_others() -> None:
    expanded = expansions()
    for name in {*ops.__all__} - {"Profile"}:  # which calibration alone uses
        node_class = getattr(ops, name)
        if node_class is ops.Profile:  # which stands in a network while it is calibrated only
            continue
        has_rule = node_class in expanded or node_class in EXPORTS
        assert has_rule or exports_of(of_class(node_class)), name


def of_class(node_class: type[Node]) -> Node:
    """Return a node without operands, of which only the class is looked at."""
    return object.__new__(node_class)


def test_what_is_saved_twice_and_what_is_not_computed_is_an_output() -> None:
    b = Builder()
    x, c = b.input("x", "float32<2 x 3>"), b.constant("c", 2 * ONES)
    doubled = b.emit(ops.Mul(x, c))
    for name, value in (("first", doubled), ("second", doubled), ("same", x), ("constant", c)):
        b.save(value, name)
    found = run(glow_nb.export_onnx(b.function()), x=ONES)
    for name, expected in evaluate(b.function(), {"x": ONES}).items():
        np.testing.assert_array_equal(found[name], expected)


def test_an_input_that_is_an_output() -> None:
    b = Builder()
    x = b.input("x", "float32<2 x 3>")
    b.outputs.append(x)
    b.emit(Save(x, x), "x_save")
    model = glow_nb.export_onnx(b.function())
    onnx.checker.check_model(model, full_check=True)
    assert [i.name for i in model.graph.input] == [o.name for o in model.graph.output] == ["x"]
    assert str(import_onnx(model).outputs) == str(b.function().outputs)


def test_predicates_are_dropped() -> None:
    b = Builder()
    x, mask = b.input("x", "float32<2 x 3>"), b.input("mask", "bool<2>")
    b.save(b.emit(dataclasses.replace(ops.Relu(x), predicate=mask)), "y")
    assert operators(glow_nb.export_onnx(b.function())) == ["Relu"]


def test_dead_nodes_are_not_written() -> None:
    b = Builder()
    x = b.input("x", "float32<2 x 3>")
    b.emit(ops.Exp(x))
    b.save(b.emit(ops.Relu(x)), "y")
    assert operators(glow_nb.export_onnx(b.function())) == ["Relu"]


def test_a_state_is_an_input_with_a_default_and_an_output() -> None:
    b = Builder()
    x, total = b.input("x", "float32<2 x 3>"), b.state("total", 5 * ONES)
    b.update(total, b.emit(ops.Add(total, x)))
    b.save(b.emit(ops.Neg(total)), "y")
    model = glow_nb.export_onnx(b.function())
    first = run(model, x=ONES)
    np.testing.assert_array_equal(first["y"], -5 * ONES)
    second = run(model, x=ONES, total=first["total_next"])
    np.testing.assert_array_equal(second["y"], -6 * ONES)


def test_a_state_that_is_not_updated_is_a_constant() -> None:
    b = Builder()
    b.save(b.emit(ops.Mul(b.input("x", "float32<2 x 3>"), b.state("w", 3 * ONES))), "y")
    model = glow_nb.export_onnx(b.function())
    assert [i.name for i in model.graph.input] == ["x"]
    np.testing.assert_array_equal(run(model, x=ONES)["y"], 3 * ONES)


def where(*, counted: bool) -> Function:
    """Return the columns of places that are not zero: all that count, or with their padding."""
    text = " counted by %n along 0" if counted else ""
    ir = f"""\
func @main(%x : float32<2 x 3>) -> (%rows : int64<6 x 2>{text}, %n : int64<>) {{
  %found = non_zero(%x) : int64<2 x 6>, int64<>
  %transposed = transpose(%found#0) {{permutation = [1, 0]}} : int64<6 x 2>
  %rows_save = save(%transposed, %rows)
  %n_save = save(%found#1, %n)
}}
"""
    function = glow_nb.network.files.parse_text(ir)
    assert isinstance(function, Function)
    return function


@pytest.mark.parametrize("counted", [True, False])
def test_what_only_a_run_counts_has_an_open_size(counted: bool) -> None:
    function = where(counted=counted)
    model = glow_nb.export_onnx(function)
    feeds = {"x": np.array([[0, 1, 0], [2, 0, 3]], np.float32)}
    found, expected = run(model, **feeds), evaluate(function, feeds)
    assert list(found) == list(expected)
    for name in expected:
        np.testing.assert_array_equal(found[name], expected[name])
    if counted:
        assert operators(model) == ["NonZero", "Transpose"]
        np.testing.assert_array_equal(evaluate(import_onnx(model), feeds)["rows"], expected["rows"])


def test_padding_that_is_computed_with_is_there() -> None:
    ir = """\
func @main(%x : float32<2 x 3>) -> (%y : int64<2 x 6> counted by %n along 1, %n : int64<>) {
  %found = non_zero(%x) : int64<2 x 6>, int64<>
  %sums = cum_sum(%found#0) {axis = 1, exclusive = false, reverse = true} : int64<2 x 6>
  %y_save = save(%sums, %y)
  %n_save = save(%found#1, %n)
}
"""
    function = glow_nb.network.files.parse_text(ir)
    assert isinstance(function, Function)
    feeds = {"x": np.array([[0, 1, 0], [2, 0, 3]], np.float32)}
    model = glow_nb.export_onnx(function)
    assert "Pad" in operators(model)
    np.testing.assert_array_equal(run(model, **feeds)["y"], evaluate(function, feeds)["y"])


@pytest.mark.parametrize(
    ("function", "opset"),
    [
        (dense(), 20),
        (of(ops.Sin, "bfloat16<4>"), 22),
        (of(ops.ConvertTo, "float32<4>", kind=ElementKind.INT4), 21),
        (of(ops.BitCast, "float32<4>", kind=ElementKind.INT32), 26),
        (of(ops.Reshape, "uint2<4>", shape=(2, 2)), 25),
    ],
)
def test_the_oldest_operator_set_that_says_it_is_taken(function: Function, opset: int) -> None:
    model = glow_nb.export_onnx(function)
    onnx.checker.check_model(model, full_check=True)
    assert model.opset_import[0].version == opset


def test_a_given_operator_set_is_taken() -> None:
    swish = of(ops.Swish, "float32<4>", alpha=2.0)
    assert operators(glow_nb.export_onnx(swish, opset=23)) == ["Mul", "Sigmoid", "Mul"]
    of_numpy: Any = np.int64(24)
    assert operators(glow_nb.export_onnx(swish, opset=of_numpy)) == ["Swish"]
    sine = glow_nb.export_onnx(of(ops.Sin, "bfloat16<4>"), opset=20)
    assert operators(sine) == ["Cast", "Sin", "Cast"]
    onnx.checker.check_model(sine, full_check=True)


@pytest.mark.parametrize("opset", [19, 10_000, "20", True, 20.0])
def test_an_operator_set_that_cannot_be_is_refused(opset: Any) -> None:
    with pytest.raises(OptionError, match="models of the operator sets 20 to"):
        glow_nb.export_onnx(dense(), opset=opset)


def test_an_operator_set_without_a_kind_is_refused() -> None:
    function = of(ops.ConvertTo, "float32<4>", kind=ElementKind.INT4)
    with pytest.raises(UnsupportedError, match="opset=20: .* since opset 21; give opset=21"):
        glow_nb.export_onnx(function, opset=20)


def test_an_operator_set_without_an_operator_is_refused() -> None:
    function = of(ops.BitCast, "float32<4>", kind=ElementKind.INT32)
    with pytest.raises(
        UnsupportedError, match=r"in opset 25 has no .*%bit_cast \(opset 26\); leave"
    ):
        glow_nb.export_onnx(function, opset=25)


@pytest.fixture
def foreign_operators() -> Iterator[tuple[type[Node], type[Node]]]:
    """Define two operators that ONNX does not have, as a user would."""

    @define_node("twist_for_the_test")
    class Twist(UnaryElementwise):
        """Nobody knows."""

        @override
        def compute(self, x: Any) -> Any:
            return x

    @define_node("turn_for_the_test")
    class Turn(UnaryElementwise):
        """Nobody knows either."""

        @override
        def compute(self, x: Any) -> Any:
            return x

    yield Twist, Turn
    del NODES[Twist.opcode], NODES[Turn.opcode]


def test_all_operators_without_a_rule_are_listed(
    foreign_operators: tuple[Any, Any],
) -> None:
    twist, turn = foreign_operators
    b = Builder()
    value: Any = b.emit(ops.Exp(b.input("x", "float32<4>")))
    b.save(b.emit(turn(b.emit(twist(value)))), "y")
    with pytest.raises(UnsupportedError) as caught:
        glow_nb.export_onnx(b.function())
    assert "twist_for_the_test %twist_for_the_test, turn_for_the_test" in str(caught.value)
    assert "exp %" not in str(caught.value)
    assert "export the graph as it is before the passes of a backend" in str(caught.value)


@pytest.mark.parametrize("wrong", [None, "model.onnx", dense, 3])
def test_only_a_function_is_exported(wrong: Any) -> None:
    with pytest.raises(OptionError, match="give a Function"):
        glow_nb.export_onnx(wrong)


def test_a_broken_function_is_refused() -> None:
    function = dense()
    with pytest.raises(VerifyError, match="is used before it is defined"):
        glow_nb.export_onnx(function.with_nodes(function.nodes[::-1]))


def test_numbers_that_were_not_supplied_are_missed() -> None:
    function = dense()
    (w,) = function.constants
    missing = Constant("w", w.type)
    nodes = glow_nb.hlir.rewrite.substitute(function, {w: missing})
    with pytest.raises(GlowError, match="were not supplied"):
        glow_nb.export_onnx(nodes)


def test_floats_of_a_function_in_float64_are_not_rounded() -> None:
    third = 1 / 3  # ONNX has attributes in float32, in which 1e300 is infinite
    for node_class, alpha in product((ops.LeakyRelu, ops.Elu), (third, 1e300)):
        function = of(node_class, "float64<2>", alpha=alpha)
        feeds = {"x": np.array([-1.0, 1.0])}
        found = evaluate(import_onnx(glow_nb.export_onnx(function)), feeds)["y0"]
        np.testing.assert_allclose(found, evaluate(function, feeds)["y0"], rtol=1e-15)


@pytest.mark.parametrize(("size", "wanted"), [(3, True), (4, False)])
def test_neighbours_on_one_side_more_are_summed_up(size: int, wanted: bool) -> None:
    attributes = {"alpha": 0.5, "beta": 0.75, "bias": 1.0, "size": size}
    function = of(ops.LocalResponseNormalization, "float32<2 x 3 x 2 x 7>", **attributes)
    model = glow_nb.export_onnx(function)
    assert ("LRN" in operators(model)) is wanted  # ONNX Runtime refuses one of even size
    x = np.random.default_rng(0).normal(size=(2, 3, 2, 7)).astype(np.float32)
    found, expected = run(model, x=x)["y0"], evaluate(function, {"x": x})["y0"]
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_a_rule_that_cannot_say_a_node_leaves_it_to_another() -> None:
    whole = ops.MaxPool(
        Placeholder("x", glow_nb.hlir.builder.as_type("int64<1 x 4 x 1>")),
        kernel=(2,),
        stride=(1,),
        pads=(0, 0),
        dilation=(1,),
    )
    assert not can_write(whole, 20)
    window: dict[str, Any] = {"kernel": (2,), "stride": (1,), "pads": (1, 0), "dilation": (1,)}
    function = of(ops.MaxPool, "int64<1 x 4 x 1>", **window)
    feeds = {"x": np.array([3, -(1 << 62), 4, 1]).reshape(1, 4, 1)}
    found = run(glow_nb.export_onnx(function), **feeds)["y0"]
    np.testing.assert_array_equal(found, evaluate(function, feeds)["y0"])


@pytest.mark.parametrize("kind", ["int8", "uint8"])
def test_a_table_is_gathered_from(kind: Literal["int8", "uint8"]) -> None:
    b = Builder()
    table = b.constant("table", np.arange(256, dtype=np.float32))
    b.save(b.emit(ops.IntLookupTable(b.input("x", f"{kind}<256>"), table)), "y")
    limits = np.iinfo(kind)
    every = np.arange(limits.min, limits.max + 1).astype(kind)
    found = run(glow_nb.export_onnx(b.function()), x=every)["y"]
    np.testing.assert_array_equal(found, np.arange(256))


@pytest.mark.parametrize("block", [1, 3])
def test_packed_weights_of_bytes_raise_the_operator_set(block: int) -> None:
    b = Builder()
    weights = b.constant("weights", np.arange(6, dtype=np.uint8).reshape(3, 2))
    scale = b.constant("scale", np.full((3 // block, 2), 0.5, np.float32))
    b.save(
        b.emit(ops.DequantizingMatMul(b.input("x", "float32<4 x 3>"), weights, scale, None, block)),
        "y",
    )
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    model = glow_nb.export_onnx(b.function())
    assert model.opset_import[0].version == 21
    found = evaluate(import_onnx(model), {"x": x})["y"]  # ONNX Runtime rounds x to bytes here
    np.testing.assert_array_equal(found, x @ (weights.array * np.float32(0.5)))
