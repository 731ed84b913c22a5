"""Import rules that a user adds for ONNX operators, and registrations that are refused."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from onnx import helper

import glow_nb
from glow_nb.base.errors import (
    DefinitionError,
    GlowWarning,
    PassError,
    UnsupportedError,
)
from glow_nb.extend import ImportContext, OnnxNode, imports, onnx_operator
from glow_nb.formats.onnx.importer.registry import RULES
from glow_nb.hlir.graph import Node, Value
from glow_nb.hlir.ops import Neg, Split
from tests.unit.formats.onnx.own_operators import (
    DOMAIN,
    X,
    model,
    row_normalize,
    typed,
)

pytestmark = pytest.mark.usefixtures("nothing_is_left")


def scaled(context: ImportContext, node: OnnxNode) -> Value:
    """``scale * x``."""
    return (context.term(node.operand(0)) * node.number("scale", 2.0)).value


def test_a_rule_makes_an_operator_of_others() -> None:
    assert imports(DOMAIN, "Scaled", "Doubled")(scaled) is scaled
    found = glow_nb.evaluate(glow_nb.load(model("Scaled", scale=3.0)), X)["y"]
    np.testing.assert_array_equal(found, 3 * X)
    found = glow_nb.evaluate(glow_nb.load(model("Doubled")), X)["y"]
    np.testing.assert_array_equal(found, 2 * X)
    net = glow_nb.compile(model("Doubled", rows="n"), backend="interpreter")
    np.testing.assert_array_equal(net.run(X)["y"], 2 * X)


def test_a_rule_goes_before_the_body_that_a_model_brings() -> None:
    body = helper.make_node("Neg", ["a"], ["b"])
    opsets = [helper.make_opsetid("", 20)]
    function = helper.make_function(DOMAIN, "Scaled", ["a"], ["b"], [body], opsets)
    brought = model("Scaled", functions=[function])
    np.testing.assert_array_equal(glow_nb.evaluate(glow_nb.load(brought), X)["y"], -X)
    imports(DOMAIN, "Scaled", since=2)(scaled)
    np.testing.assert_array_equal(glow_nb.evaluate(glow_nb.load(brought), X)["y"], -X)
    imports(DOMAIN, "Scaled")(scaled)
    np.testing.assert_array_equal(glow_nb.evaluate(glow_nb.load(brought), X)["y"], 2 * X)


def returns_a_term(context: ImportContext, node: OnnxNode) -> Any:
    return context.term(node.operand(0)) * 2


def returns_nothing(context: ImportContext, node: OnnxNode) -> Any:
    return None


def fails(context: ImportContext, node: OnnxNode) -> Any:
    sizes: dict[str, float] = {}
    return sizes["scale"]


def leaves_an_operand(context: ImportContext, node: OnnxNode) -> Any:
    return Neg(Neg(node.operand(0)))


def emits_half(context: ImportContext, node: OnnxNode) -> Any:
    return context.emit(Neg(Neg(node.operand(0))))


def leaves_a_result(context: ImportContext, node: OnnxNode) -> Any:
    return Split(node.operand(0), 1, (1, 2)).results[1]


def leaves_nodes(context: ImportContext, node: OnnxNode) -> Any:
    return (Neg(node.operand(0)),)


def leaves_one(context: ImportContext, node: OnnxNode) -> Any:
    return Neg(node.operand(0))


def test_a_rule_may_leave_its_one_node_to_emit() -> None:
    imports(DOMAIN, "Negative")(leaves_one)
    found = glow_nb.evaluate(glow_nb.load(model("Negative")), X)["y"]
    np.testing.assert_array_equal(found, -X)


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (leaves_an_operand, "'leaves_an_operand': it has made a node neg and not emitted it"),
        (emits_half, "'emits_half': it has made a node neg and not emitted it"),
        (leaves_a_result, "'leaves_a_result': it has made a node split and not emitted it"),
        (leaves_nodes, "'leaves_nodes': it has made a node neg and not emitted it"),
        (returns_a_term, "'returns_a_term': it returns a Term; return its .value"),
        (returns_nothing, "'returns_nothing': it returns None; return the value of the output"),
        (fails, r"'fails': KeyError: 'scale' \(line \d+ of test_own_import_rules.py: return sizes"),
    ],
)
def test_a_rule_that_is_wrong(rule: Any, message: str) -> None:
    imports(DOMAIN, "Wrong")(rule)
    with pytest.raises(PassError, match=rf"node 'node' .*: import rule {message}"):
        glow_nb.load(model("Wrong"))


@pytest.mark.parametrize(
    ("op", "opset", "message"),
    [
        ("Scaled", 0, "the model does not say which operator set of domain 'test.own' it uses"),
        ("Scaled", 2, "its rule holds from operator set 3 on"),
        ("Other", 3, r"Scaled are known \(register it with glow_nb.extend.onnx_op"),
    ],
)
def test_an_operator_that_has_no_rule(op: str, opset: int, message: str) -> None:
    imports(DOMAIN, "Scaled", since=3)(scaled)
    with pytest.raises(UnsupportedError, match=message):
        glow_nb.load(model(op, opset=opset))


def test_an_unknown_domain_leads_to_the_rules() -> None:
    with pytest.raises(
        UnsupportedError, match=r"'test.own' is not known \(register it with glow_nb"
    ):
        glow_nb.load(model("Scaled"))


def test_a_name_is_registered_twice() -> None:
    row_normalize()
    with warnings.catch_warnings(record=True) as noticed:
        warnings.simplefilter("always")
        later = row_normalize()
    assert [str(w.message).partition(" is ")[0] for w in noticed if w.category is GlowWarning] == [
        "operator 'test_row_normalize'",
        "import rule of 'RowNormalize' since opset 1",
    ]
    assert isinstance(glow_nb.load(model("RowNormalize")).nodes[0], later)
    scaled_elsewhere: Any = lambda context, node: scaled(context, node)  # noqa: E731
    scaled_elsewhere.__module__ = "elsewhere"
    with pytest.raises(DefinitionError, match="registered by tests.*, elsewhere cannot replace it"):
        imports(DOMAIN, "Scaled", "RowNormalize")(scaled_elsewhere)
    assert (DOMAIN, "Scaled") not in RULES


NO_OPERATOR: Any = scaled


NO_RULE: Any = "text"


Nested = tuple[tuple[int, ...], ...]


@pytest.mark.parametrize(
    ("register", "message"),
    [
        (lambda: imports("", "Relu", since=99)(scaled), "glow_nb has a rule for this operator"),
        (lambda: imports("ai.onnx", "Reluu")(scaled), "and has no Reluu in it"),
        (lambda: imports(DOMAIN), "named by a domain and a name"),
        (lambda: imports(scaled), "named by a domain and a name"),  # type: ignore[arg-type]
        (lambda: imports(DOMAIN, "A", since=0), "since=0: operator sets have numbers from 1 to 9"),
        (lambda: imports(DOMAIN, "A", since=1 << 63), "operator sets have numbers from 1 to 9"),
        (lambda: imports(DOMAIN, "A", since=True), "operator sets have numbers from 1 to 9"),
        (lambda: imports(DOMAIN, "A")(NO_RULE), "rule of 'A': 'text' is no function"),
        (lambda: onnx_operator("", "Relu")(Node), "domain ''; choose a domain of your own$"),
        (lambda: onnx_operator("ai.onnx", "Reluu")(Node), "'ai.onnx'; choose a .* of your own$"),
        (lambda: onnx_operator("", "TfIdfVectorizer")(Node), "own, or write a rule with glow_nb"),
        (lambda: onnx_operator(DOMAIN, "A")(NO_OPERATOR), "is no operator"),
        (lambda: onnx_operator(DOMAIN, "A")(Node), "Node is no operator yet"),
        (
            lambda: onnx_operator(DOMAIN, "B")(type("Early", (Node,), {})),
            "Early is no operator yet; write @onnx_operator in the line before @define_node",
        ),
        (
            lambda: onnx_operator(DOMAIN, "B")(row_normalize()),
            "written as an ONNX operator",
        ),
        (lambda: typed(Nested), "Typed.it: ONNX has no attribute of type tuple"),
        (lambda: typed(Value), "Typed.inputs: only the last operand can be a tuple"),
    ],
)
def test_a_registration_that_cannot_be(register: Callable[[], object], message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        register()
