"""Differentiation of whole functions: which gradients there are, their names, and errors."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from typing_extensions import override

import glow_nb
from glow_nb.backends import backend_named
from glow_nb.base.errors import GradientError, PassError, VerifyError
from glow_nb.base.types import TensorType
from glow_nb.hlir import ops
from glow_nb.hlir.backward import Backward
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.differentiate import differentiate
from glow_nb.hlir.evaluate import evaluate
from glow_nb.hlir.graph import NODES, Function, Node, Value, define_node
from glow_nb.hlir.ops.families import UnaryElementwise
from glow_nb.hlir.parse import parse_function
from glow_nb.hlir.rules import GRADIENTS, WITHOUT_GRADIENT, OperandGradients, gradient, no_gradient

LAYER = """
constant %w : float32<3 x 2> = dense [1, 2, 3, 4, 5, 6]
func @main(%x : float32<4 x 3>, %n : int64<4 x 2>) -> (%loss : float32<>, %rows : float32<4 x 2>) {
  %product = mat_mul(%x, %w) : float32<4 x 2>
  %bent = tanh(%product) : float32<4 x 2>
  %sum = reduce_sum(%bent) {axes = [0, 1], keep_dims = false} : float32<>
  %loss_save = save(%sum, %loss)
  %rows_save = save(%bent, %rows)
}
"""


@pytest.fixture
def layer() -> Function:
    return parse_function(LAYER)


def test_gradients_are_further_outputs(layer: Function) -> None:
    found = differentiate(layer, ["w", "x", "w"], output="loss")
    names = [output.name for output in found.outputs]
    assert names == ["loss", "rows", "d_w", "d_x"]
    assert [output.type for output in found.outputs[2:]] == [
        layer.constants[0].type,
        layer.inputs[0].type,
    ]
    assert found.nodes[: len(layer.nodes)] == layer.nodes
    assert layer.outputs == found.outputs[:2]


def test_only_what_was_asked_for_is_computed(layer: Function) -> None:
    opcodes = [node.opcode for node in differentiate(layer, ["w"], "loss").nodes]
    assert opcodes.count("mat_mul") == 2
    assert [n.opcode for n in differentiate(layer, ["w", "x"], "loss").nodes].count("mat_mul") == 3


def test_backward_nodes_stand_for_the_node_they_differentiate(layer: Function) -> None:
    found = differentiate(layer, ["w"], "loss")
    products = [node for node in found.nodes if node.opcode == "mat_mul"]
    assert [found.origins_of(node) for node in products] == [("product",), ("product",)]
    assert products[1].name == "d_product_mat_mul"


def test_a_gradient_gets_a_free_name(layer: Function) -> None:
    once = differentiate(layer, ["w"], "loss")
    twice = differentiate(once, ["w"], "loss")
    assert [output.name for output in twice.outputs] == ["loss", "rows", "d_w", "d_w_1"]


def test_uses_add_up() -> None:
    builder = Builder()
    x = builder.input("x", "float32<>")
    square = builder.emit(ops.Mul(x, x))
    builder.save(builder.emit(ops.Add(builder.emit(ops.Mul(square, x)), x)), "loss")
    function = differentiate(builder.function(), ["x"])
    assert evaluate(function, {"x": np.array(2, np.float32)})["d_x"] == 3 * 2**2 + 1


def test_what_the_output_does_not_depend_on_gets_zeros() -> None:
    builder = Builder()
    x, y = builder.input("x", "float32<>"), builder.input("y", "float32<2 x 3>")
    builder.save(builder.emit(ops.Exp(x)), "loss")
    builder.save(y, "other")
    function = differentiate(builder.function(), ["x", "y"], "loss")
    found = evaluate(function, {"x": np.array(0, np.float32), "y": np.ones((2, 3), np.float32)})
    assert found["d_x"] == 1
    np.testing.assert_array_equal(found["d_y"], np.zeros((2, 3)))


def test_an_input_may_be_the_output_itself() -> None:
    builder = Builder()
    builder.save(builder.input("x", "float32<1>"), "loss")
    function = differentiate(builder.function(), ["x"])
    assert evaluate(function, {"x": np.ones(1, np.float32)})["d_x"] == [1]


def test_an_output_of_one_element_may_have_any_rank() -> None:
    builder = Builder()
    x = builder.input("x", "float32<1 x 3>")
    builder.save(builder.emit(ops.ReduceMean(x, (1,))), "loss")
    function = differentiate(builder.function(), ["x"])
    found = evaluate(function, {"x": np.ones((1, 3), np.float32)})["d_x"]
    np.testing.assert_allclose(found, np.full((1, 3), 1 / 3), rtol=1e-6)


ERRORS = {
    "a name that is not there": (
        ["y"],
        "loss",
        "function 'main' has no input, state or constant 'y'",
    ),
    "a name that is nearly right": (["ww"], "loss", "'ww'; did you mean 'w'?"),
    "integers": (["n"], "loss", "%n : int64<4 x 2> has no gradient: it does not hold floats"),
    "an output that is not there": (["w"], "los", "no output 'los'; it has ['loss', 'rows']; did"),
    "several outputs": (["w"], None, "has the outputs ['loss', 'rows']; say which"),
    "an output of several elements": (["w"], "rows", "only an output of one float can be"),
    "nothing asked for": ([], "loss", "name at least one input, state or constant"),
}


@pytest.mark.parametrize(("wrt", "output", "message"), ERRORS.values(), ids=ERRORS)
def test_bad_arguments(layer: Function, wrt: list[str], output: str | None, message: str) -> None:
    with pytest.raises(GradientError, match=re.escape(message)):
        differentiate(layer, wrt, output)


@pytest.mark.parametrize(
    ("wrt", "message"),
    [
        ("x", "wrt is 'x'; give a list of names: ['x']"),
        (None, "wrt is None; give a list of names: ['w']"),
        ([["x"]], "wrt holds ['x']; give names of inputs, states or constants"),
        ([], "wrt is empty"),
    ],
)
def test_what_is_no_list_of_names_is_refused(layer: Function, wrt: Any, message: str) -> None:
    with pytest.raises(GradientError, match=re.escape(message)):
        differentiate(layer, wrt, "loss")


def test_an_output_that_is_no_name_is_refused(layer: Function) -> None:
    with pytest.raises(GradientError, match="output is 5; give the name of an output"):
        differentiate(layer, ["w"], 5)  # type: ignore[arg-type]


def test_an_output_that_depends_on_nothing_of_wrt() -> None:
    builder = Builder()
    x, y = builder.input("x", "float32<>"), builder.input("y", "float32<>")
    builder.save(builder.emit(ops.Exp(x)), "loss")
    builder.save(y, "other")
    message = "exp %exp does not depend on any of y; differentiate another output"
    with pytest.raises(GradientError, match=re.escape(message)):
        differentiate(builder.function(), ["y"], "loss")


def test_all_operators_that_pass_on_no_floats_are_listed() -> None:
    builder = Builder()
    x = builder.input("x", "float32<2 x 4>")
    squares = builder.emit(ops.Mul(x, x))
    best = builder.emit(ops.ArgMax(squares, axis=1), "best")
    places = builder.emit(ops.TopK(squares, 1, 1), "top").results[1]
    whole = builder.emit(ops.Add(best, places))
    total = builder.emit(ops.ReduceSum(whole, (0, 1), keep_dims=False))
    builder.save(builder.emit(ops.ConvertTo(total, x.type.kind)), "loss")
    with pytest.raises(GradientError) as caught:
        differentiate(builder.function(), ["x"])
    assert str(caught.value) == (
        "no gradient flows through arg_max %best (its results are positions); "
        "top_k %top (it passes on no floats)"
    )


def test_a_predicate_is_refused() -> None:
    builder = Builder()
    x, which = builder.input("x", "float32<2 x 3>"), builder.input("which", "bool<2>")
    value = builder.emit(ops.Exp(x, predicate=which))
    builder.save(builder.emit(ops.ReduceSum(value, (0, 1), keep_dims=False)), "loss")
    with pytest.raises(GradientError, match="exp %exp has a predicate: .*; drop the predicate"):
        differentiate(builder.function(), ["x"])


@pytest.fixture
def steep() -> Iterator[type[UnaryElementwise]]:
    """Define an operator without formula and rule, and forget it again."""

    @define_node("steep_for_the_test")
    class Steep(UnaryElementwise):
        """``result[i] = 100 * input[i]``."""

        @override
        def compute(self, x: float) -> float:
            return 100 * x

    yield Steep
    del NODES[Steep.opcode]
    for table in (GRADIENTS, WITHOUT_GRADIENT):
        table.pop(Steep, None)


def test_all_operators_in_the_way_are_listed(steep: type[UnaryElementwise]) -> None:
    builder = Builder()
    x = builder.input("x", "float32<4>")
    value: Value = x
    for _ in range(4):
        value = builder.emit(steep(value))
    bits = builder.emit(ops.BitCast(value, value.type.kind), "bits")
    builder.save(builder.emit(ops.ReduceSum(bits, (0,), False)), "loss")
    with pytest.raises(GradientError) as caught:
        differentiate(builder.function(), ["x"])
    assert str(caught.value) == (
        "no gradient flows through steep_for_the_test %steep_for_the_test, "
        "steep_for_the_test %steep_for_the_test_1, steep_for_the_test %steep_for_the_test_2, ... "
        "(it has no rule: write one with @gradient); "
        "bit_cast %bits (it takes bits, not numbers)"
    )


def test_operators_beside_the_way_need_no_gradient(steep: type[UnaryElementwise]) -> None:
    builder = Builder()
    x, y = builder.input("x", "float32<>"), builder.input("y", "float32<>")
    builder.save(builder.emit(ops.Mul(x, builder.emit(steep(y)))), "loss")
    function = differentiate(builder.function(), ["x"])
    assert (
        evaluate(function, {"x": np.array(1, np.float32), "y": np.array(2, np.float32)})["d_x"]
        == 200
    )


def test_a_rule_of_a_user_is_used(steep: type[UnaryElementwise]) -> None:
    @gradient(steep)
    def steep_gradient(
        node: UnaryElementwise, upstream: Value, builder: Backward
    ) -> OperandGradients:
        return {"input": (builder.term(upstream) * 100).value}

    found = evaluate(differentiate(steep_function(steep), ["x"]), {"x": np.array(1, np.float32)})
    assert found["d_x"] == 100


def steep_function(steep: type[UnaryElementwise]) -> Function:
    builder = Builder()
    builder.save(builder.emit(steep(builder.input("x", "float32<>"))), "loss")
    return builder.function()


def test_a_rule_that_fails_is_named(steep: type[UnaryElementwise]) -> None:
    @gradient(steep)
    def wrong(node: UnaryElementwise, upstream: Value, builder: Backward) -> OperandGradients:
        raise KeyError("oh")

    with pytest.raises(PassError, match=r"gradient rule 'wrong' of steep_for_the_test .*KeyError"):
        differentiate(steep_function(steep), ["x"])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"inputs": None}, "it gives a gradient for 'inputs', but the operands are input"),
        ({"input": "x" * 2}, "of type float32<2>, but %x : float32<>"),
        (None, "it must return a dict of gradients by operand, got None"),
    ],
)
def test_a_rule_that_gives_what_does_not_fit_is_named(
    steep: type[UnaryElementwise], given: dict[str, object] | None, message: str
) -> None:
    @gradient(steep)
    def wrong(node: UnaryElementwise, upstream: Value, builder: Backward) -> OperandGradients:
        wide = builder.emit(ops.Broadcast(builder.emit(ops.Reshape(upstream, (1,))), (2,)))
        if given is None:
            return None  # type: ignore[return-value]
        return {name: wide if value else None for name, value in given.items()}

    with pytest.raises(PassError, match=r"gradient rule 'wrong' of .*" + re.escape(message)):
        differentiate(steep_function(steep), ["x"])


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda up, b: b.term(up) * 2, "it gives a Term for 'input'; give its .value"),
        (lambda up, b: ops.Relu(up), "for 'input', a node that it did not emit"),
        (lambda up, b: 2.0, "it gives 2.0 for 'input'; give a value, or None"),
        (lambda up, b: (up, up), "for 'input'; give a value, or None"),
    ],
)
def test_a_rule_that_gives_no_value_is_told_what_to_give(
    steep: type[UnaryElementwise], made: Callable[[Value, Backward], Any], message: str
) -> None:
    @gradient(steep)
    def wrong(node: UnaryElementwise, upstream: Value, builder: Backward) -> OperandGradients:
        return {"input": made(upstream, builder)}

    with pytest.raises(PassError, match=r"gradient rule 'wrong' of .*" + re.escape(message)):
        differentiate(steep_function(steep), ["x"])


def test_a_rule_of_several_operands_gives_as_many_gradients() -> None:
    @define_node("several_for_the_test")
    class Several(Node):
        parts: tuple[Value, ...]

        @override
        def infer_type(self) -> TensorType:
            return self.parts[0].type

    @gradient(Several)
    def wrong(node: Several, upstream: Value, builder: Backward) -> OperandGradients:
        return {"parts": (upstream,)}

    builder = Builder()
    x = builder.input("x", "float32<>")
    builder.save(builder.emit(Several((x, x))), "loss")
    try:
        with pytest.raises(PassError, match="'parts' has 2 operands; give a tuple of as many"):
            differentiate(builder.function(), ["x"])
    finally:
        del NODES[Several.opcode], GRADIENTS[Several]


def test_a_term_is_no_operand() -> None:
    builder = Backward()
    x = builder.input("x", "float32<>")
    with pytest.raises(VerifyError, match=r"operand Term\(%x : float32<>\) is not an IR .*\.value"):
        ops.Relu(builder.term(x))  # type: ignore[arg-type]


def test_a_gradient_for_some_kinds_only_is_no_rule(steep: type[UnaryElementwise]) -> None:
    no_gradient("it is not smooth", steep)
    with pytest.raises(GradientError, match="it is not smooth"):
        differentiate(steep_function(steep), ["x"])


def test_a_lowered_graph_says_why_it_has_no_gradients() -> None:
    builder = glow_nb.Builder()
    x = builder.input("x", "float32<8 x 16>")
    w = builder.constant("w", np.ones((16, 16), np.float32))
    builder.save(builder.emit(ops.ReduceSum(builder.emit(ops.MatMul(x, w)), (0, 1), False)), "loss")
    lowered = glow_nb.lower_for(builder.function(), backend_named("cpu"))
    with pytest.raises(GradientError, match="differentiate the graph as it was before"):
        differentiate(lowered, ["x"])


def test_what_is_no_function_is_refused() -> None:
    with pytest.raises(GradientError, match=r"5 is no Function; glow_nb\.load"):
        differentiate(5, ["x"])  # type: ignore[arg-type]
