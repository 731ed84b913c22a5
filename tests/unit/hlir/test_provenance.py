"""Which imported nodes a node stands for, through rewriting, text and IRGen."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import glow_nb
from glow_nb.base.errors import ParseError
from glow_nb.hlir import ops
from glow_nb.hlir.graph import Function, Node, Value
from glow_nb.hlir.optimize import GRAPH_PASSES
from glow_nb.hlir.parse import parse_function
from glow_nb.hlir.print import print_function
from glow_nb.hlir.rewrite import Rewriter, rewrite
from glow_nb.llir.parse import parse_program
from glow_nb.llir.print import print_program


def convolution_chain() -> onnx.ModelProto:
    """Return conv, batch normalization, relu, dropout, and a second branch that is added."""
    rng = np.random.default_rng(0)
    weights = {
        "w": rng.normal(size=(8, 3, 3, 3)),
        "v": rng.normal(size=(8, 3, 1, 1)),
        **{name: rng.uniform(0.5, 1.5, 8) for name in ("scale", "shift", "mean", "variance")},
    }
    statistics = ["scale", "shift", "mean", "variance"]
    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["x", "w"], ["a"], name="conv", pads=[1, 1, 1, 1]),
            helper.make_node("BatchNormalization", ["a", *statistics], ["b"], name="bn"),
            helper.make_node("Conv", ["x", "v"], ["side"], name="side conv"),
            helper.make_node("Add", ["b", "side"], ["sum"], name="add"),
            helper.make_node("Relu", ["sum"], ["r"], name="relu"),
            helper.make_node("Identity", ["r"], ["s"], name="identity"),
            helper.make_node("GlobalAveragePool", ["s"], ["y"]),
        ],
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 8, 1, 1])],
        [numpy_helper.from_array(v.astype(np.float32), k) for k, v in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def lowered() -> Function:
    function = glow_nb.load(convolution_chain())
    return glow_nb.optimize(function)


def test_the_importer_names_the_onnx_node() -> None:
    function = glow_nb.load(convolution_chain())
    found = {function.origins_of(node) for node in function if not isinstance(node, ops.Reshape)}
    assert {("conv",), ("bn",), ("side conv",), ("add",), ("relu",)} <= found
    assert not any("identity" in names for names in found)


@pytest.mark.parametrize("backend", ["interpreter", pytest.param("cpu", marks=pytest.mark.jit)])
def test_kernels_name_all_nodes_that_went_into_them(backend: str) -> None:
    net = glow_nb.compile(convolution_chain(), backend=backend, threads=1)
    named = [kernel.origins for kernel in net.kernels]
    assert any({"conv", "bn"} <= set(names) for names in named)
    stacked = [names for names in named if "add" in names]
    assert len(stacked) == 1
    assert {"add", "relu"} <= set(stacked[0])
    assert all(len(set(names)) == len(names) for names in named)
    assert "conv, bn" in str(net.kernels)
    assert repr(net.kernels).startswith(f"<{len(net.kernels)} kernels, ")


def test_layout_changes_stay_what_they_were() -> None:
    function = parse_function(
        """\
func @main(%x : float32<2 x 3>) -> (%y : float32<2 x 3>) {
  %there = transpose(%x) {permutation = [1, 0]} : float32<3 x 2> from %one
  %middle = relu(%there) : float32<3 x 2>
  %y_save = save(%y2, %y)
}
""".replace(
            "  %y_save",
            "  %y2 = transpose(%middle) {permutation = [1, 0]} : float32<2 x 3>\n  %y_save",
        )
    )
    after = GRAPH_PASSES.run(function, ("sink_transposes", "eliminate_dead_nodes"))
    named = {node.opcode: after.origins_of(node) for node in after}
    assert named["relu"] == ("middle",)


def test_a_rule_hands_on_what_it_skips() -> None:
    def rule(node: Node, rewriter: Rewriter) -> Value | None:
        match node:
            case ops.Relu(input=ops.Clip(input=value)):
                return rewriter.emit(ops.Sigmoid(value))
        return None

    b = glow_nb.Builder("main")
    x = b.emit(ops.Exp(b.input("x", "float32<4>")), "exp")
    clip = b.emit(ops.Clip(x, minimum=0.0, maximum=6.0), "clip")
    b.save(b.emit(ops.Relu(clip), "relu"), "y")
    b.save(clip, "z")  # the skipped node lives on: it went into both
    after = rewrite(b.function(), rule)
    assert after.origins_of(after["relu"]) == ("clip", "relu")
    assert after.origins_of(after["clip"]) == ("clip",)
    assert after.origins_of(after["exp"]) == ("exp",)


def test_common_nodes_stand_for_each_other() -> None:
    b = glow_nb.Builder("main")
    x = b.input("x", "float32<4>")
    one, two = b.emit(ops.Relu(x), "one"), b.emit(ops.Relu(x), "two")
    b.save(b.emit(ops.Add(one, two), "sum"), "y")
    after = GRAPH_PASSES.run(b.function(), ("eliminate_common_nodes",))
    assert after.origins_of(after["one"]) == ("one", "two")


def test_a_name_that_is_taken_over_tells_no_old_story() -> None:
    def to_sigmoid(node: Node, rewriter: Rewriter) -> Value | None:
        return rewriter.emit(ops.Sigmoid(node.input)) if isinstance(node, ops.Relu) else None

    b = glow_nb.Builder("main")
    b.save(b.emit(ops.Relu(b.input("x", "float32<4>")), "relu"), "y")
    function = rewrite(b.function(), to_sigmoid)
    assert function.origins == {}
    assert print_function(function) == print_function(parse_function(print_function(function)))


def test_text_comes_back_with_its_origins() -> None:
    function = lowered()
    text = print_function(function)
    assert " from %conv, %bn" in text
    assert '%"side conv"' in text
    again = parse_function(text)
    assert print_function(again) == text
    assert again.origins == function.origins
    program = glow_nb.compile(convolution_chain(), backend="interpreter").program
    text = print_program(program)
    assert " of %conv, %bn" in text
    read = parse_program(text)
    assert print_program(read) == text
    assert [i.imported_names for i in read.work] == [i.imported_names for i in program.work]


@pytest.mark.parametrize("end", ["from", "from 3", "from %a,", "from [%a]"])
def test_broken_origins_are_refused(end: str) -> None:
    text = (
        "func @main(%x : float32<4>) -> (%y : float32<4>) {\n"
        f"  %r = relu(%x) : float32<4> {end}\n"
        "  %y_save = save(%r, %y)\n}\n"
    )
    with pytest.raises(ParseError):
        parse_function(text)
