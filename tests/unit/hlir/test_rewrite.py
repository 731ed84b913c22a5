"""The rewrite driver and the whole-function verifier."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from glow_nb.base.errors import GlowError, OptionError, VerifyError
from glow_nb.base.schema import operands_of
from glow_nb.base.types import Array, ElementKind, TensorType
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.evaluate import evaluate
from glow_nb.hlir.graph import Function, Node, Placeholder, Value
from glow_nb.hlir.ops import Add, Neg, Relu, Slice, Split, Tanh
from glow_nb.hlir.ops.families import UnaryElementwise
from glow_nb.hlir.print import print_function
from glow_nb.hlir.rewrite import Replacement, Rewriter, rewrite, substitute
from glow_nb.hlir.save import Save
from glow_nb.hlir.verify import verify


def chain() -> Function:
    b = Builder()
    x = b.input("x", "float32<4>")
    first = b.emit(Relu(x), "first")
    second = b.emit(Relu(first), "second")
    b.save(b.emit(Add(first, second), "sum"), "y")
    return b.function()


def test_nothing_fired_gives_the_same_object() -> None:
    function = chain()
    assert rewrite(function, lambda node, rewriter: None) is function


def test_a_node_that_a_rule_returns_stays() -> None:
    function = chain()
    assert rewrite(function, lambda node, rewriter: node) is function


def test_a_node_of_several_results_that_a_rule_returns_stays() -> None:
    b = Builder()
    halves = b.emit(Split(b.input("x", "float32<4>"), sizes=(2, 2), axis=0))
    for number, half in enumerate(halves.results):
        b.save(half, f"y{number}")
    function = b.function()
    assert rewrite(function, lambda node, rewriter: node.results, Split) is function


def test_a_rule_is_offered_the_classes_that_it_names_and_those_derived_from_them() -> None:
    offered: list[str] = []

    def note(node: Node, rewriter: Rewriter) -> Replacement:
        offered.append(node.name)
        return None

    rewrite(chain(), note, Tanh, UnaryElementwise)
    assert offered == ["first", "second"]
    rewrite(chain(), note, Split, Neg)
    assert offered == ["first", "second"]


def test_nodes_that_are_not_offered_read_what_was_replaced() -> None:
    def rule(node: Relu, rewriter: Rewriter) -> Replacement:
        return node.input if isinstance(node.input, Relu) else None

    function = chain()
    assert operands_of(function["sum"]) == (function["first"], function["second"])
    changed = rewrite(function, rule, Relu)
    assert operands_of(changed["sum"]) == (changed["first"], changed["first"])


def test_a_replacement_inherits_the_name() -> None:
    def rule(node: Node, rewriter: Rewriter) -> Replacement:
        if isinstance(node, Add):
            return rewriter.emit(Neg(rewriter.emit(Tanh(node.lhs))))
        return None

    changed = rewrite(chain(), rule)
    assert [n.name for n in changed] == ["first", "second", "sum_tanh", "sum", "y_save"]
    assert isinstance(changed["sum"], Neg)
    verify(changed)


def test_the_first_node_that_asks_for_the_old_name_keeps_it() -> None:
    def rule(node: Node, rewriter: Rewriter) -> Replacement:
        if isinstance(node, Add):
            return rewriter.emit(Neg(rewriter.emit(dataclasses.replace(node, rhs=node.lhs))))
        return None

    changed = rewrite(chain(), rule)
    assert isinstance(changed["sum"], Add)
    assert isinstance(changed["sum_neg"], Neg)


def test_a_rule_sees_rewritten_operands_and_current_use_counts() -> None:
    counts: dict[str, int] = {}

    def rule(node: Node, rewriter: Rewriter) -> Replacement:
        match node:
            case Relu(input=Placeholder()):
                return rewriter.emit(Tanh(node.input))
            case Add(lhs=lhs, rhs=rhs):
                assert isinstance(lhs, Tanh)
                counts.update({v.name: rewriter.use_count(v) for v in (lhs, rhs)})
        return None

    rewrite(chain(), rule)
    assert counts == {"first": 2, "second": 1}


def test_results_of_several_are_replaced_together() -> None:
    b = Builder()
    x = b.input("x", "float32<6>")
    parts = b.emit(Split(x, axis=0, sizes=(2, 4)), "parts").results
    b.save(b.emit(Neg(parts[1])), "y")

    def rule(node: Node, rewriter: Rewriter) -> Replacement:
        if isinstance(node, Split) and not isinstance(node.input, Tanh):
            inner = rewriter.emit(Tanh(node.input))
            return rewriter.emit(dataclasses.replace(node, input=inner)).results
        return None

    text = print_function(rewrite(b.function(), rule))
    assert "%parts = split(%parts_tanh)" in text
    assert "neg(%parts#1)" in text


def test_a_replacement_of_another_type_is_refused() -> None:
    b = Builder()
    x = b.input("x", "float32<4>")
    b.save(b.emit(Relu(x)), "y")
    other = b.constant("c", np.zeros(3, np.float32))
    with pytest.raises(GlowError, match="replaced results of types .*4.* by values of types .*3"):
        rewrite(b.function(), lambda node, r: other if isinstance(node, Relu) else None)


RELU = Relu(Placeholder("other", TensorType(ElementKind.FLOAT32, (4,))))


@pytest.mark.parametrize("returned", [[], 0.0, "x", np.zeros(4), (None,), True], ids=repr)
def test_what_is_no_value_is_refused(returned: Any) -> None:
    with pytest.raises(GlowError, match="^relu %first: a rule returned .*; it must return a value"):
        rewrite(chain(), lambda node, rewriter: returned, Relu)


def test_a_value_that_is_not_in_the_function_is_refused() -> None:
    message = r"^relu %first: a rule returned \w+ %\S+, which is not in the function; emit it with"
    for returned in (lambda node, rewriter: Tanh(node.input), lambda node, rewriter: RELU):
        with pytest.raises(GlowError, match=message):
            rewrite(chain(), returned, Relu)


def test_a_result_that_nobody_reads_may_be_that_of_the_node_that_was_replaced() -> None:
    def first_half(node: Split, rewriter: Rewriter) -> tuple[Value, ...]:
        sliced = Slice(node.input, starts=(0,), stops=(2,), steps=(1,))
        return rewriter.emit(sliced), node.results[1]

    def halved(is_second_read: bool) -> Function:
        b = Builder()
        halves = b.emit(Split(b.input("x", "float32<4>"), sizes=(2, 2), axis=0))
        for number, half in enumerate(halves.results[: 1 + is_second_read]):
            b.save(half, f"y{number}")
        return b.function()

    found = evaluate(rewrite(halved(False), first_half, Split), {"x": np.arange(4, dtype="f4")})
    np.testing.assert_array_equal(found["y0"], [0, 1])
    with pytest.raises(GlowError, match="^split %split: a rule returned split %split, which is"):
        rewrite(halved(True), first_half, Split)


def test_an_update_that_a_rule_took_back_changes_nothing() -> None:
    def undecided(node: Relu, rewriter: Rewriter) -> None:
        mark = rewriter.mark()
        state = rewriter.state("s", np.zeros(4, np.float32))
        rewriter.update(state, node.input)
        rewriter.reset(mark)

    function = chain()
    assert rewrite(function, undecided, Relu) is function


def test_a_rule_leaves_inputs_and_outputs_as_they_are() -> None:
    with pytest.raises(GlowError, match="^output 'seen' of function 'main': a rule cannot add"):
        rewrite(chain(), lambda node, rewriter: rewriter.save(node.input, "seen"), Relu)
    with pytest.raises(GlowError, match="^input 'z' of function 'main': a rule cannot add"):
        rewrite(chain(), lambda node, rewriter: rewriter.input("z", "float32<4>"), Relu)


def test_a_rule_that_keeps_its_node_may_update_a_state() -> None:
    def count(node: Add, rewriter: Rewriter) -> None:
        state = rewriter.state("runs", np.zeros(4, np.float32))
        rewriter.update(state, rewriter.emit(Add(state, node.lhs)))

    held: dict[str, Array] = {}
    evaluate(rewrite(chain(), count, Add), {"x": np.ones(4, np.float32)}, held)
    np.testing.assert_array_equal(held["runs"], np.ones(4))


def test_a_rule_and_its_classes_are_checked() -> None:
    rule: Any = None
    with pytest.raises(OptionError, match="^rule=None: give a function"):
        rewrite(chain(), rule)
    cls: Any = "relu"
    with pytest.raises(OptionError, match="^'relu' is no class of nodes; give one such as"):
        rewrite(chain(), lambda node, rewriter: None, cls)
    node: Any = None
    with pytest.raises(GlowError, match="^None is a NoneType, not a node"):
        rewrite(chain(), lambda _, rewriter: rewriter.emit(node), Relu)


def test_evaluate_names_what_is_missing() -> None:
    function = chain()
    unordered = dataclasses.replace(function, nodes=function.nodes[1:])
    feeds = {"x": np.ones(4, np.float32)}
    with pytest.raises(GlowError, match="^relu %first is read, but no node before its reader"):
        evaluate(unordered, feeds)
    unsaved = dataclasses.replace(function, nodes=function.nodes[:-1])
    with pytest.raises(VerifyError, match="output %y : float32<4> is never written"):
        evaluate(unsaved, feeds)


def test_substitute_follows_the_change_to_later_readers() -> None:
    function = chain()
    new = Placeholder("z", TensorType(ElementKind.FLOAT32, (4,)))
    changed = substitute(function, {function.inputs[0]: new})
    assert changed["first"].input is new  # type: ignore[attr-defined]
    assert changed["second"].input is changed["first"]  # type: ignore[attr-defined]
    assert substitute(function, {}) is function


def test_verify_finds_what_a_node_alone_cannot_see() -> None:
    function = chain()
    first, second, total, save = function.nodes
    broken = {
        "used before it is defined": (second, first, total, save),
        "name is not unique": (
            first,
            dataclasses.replace(first, name="second"),
            second,
            total,
            save,
        ),
        "is never written": (first, second, total),
        "is written by": (first, second, total, save, dataclasses.replace(save, name="again")),
    }
    for message, nodes in broken.items():
        with pytest.raises(VerifyError, match=message):
            verify(function.with_nodes(nodes))
    stranger = Placeholder("stranger", first.type)
    with pytest.raises(VerifyError, match="is not an input or output of the function"):
        verify(function.with_nodes((*function.nodes, Save(first, stranger, name="more"))))


def test_a_node_with_several_results_is_no_operand() -> None:
    b = Builder()
    parts = b.emit(Split(b.input("x", "float32<6>"), axis=0, sizes=(2, 4)))
    with pytest.raises(VerifyError, match="has 2 results; use one of its .results"):
        Neg(parts)


def test_a_predicate_must_be_a_bool_vector_of_the_batch() -> None:
    b = Builder()
    x, mask = b.input("x", "float32<4 x 2>"), b.input("mask", "bool<4>")
    node = b.emit(Relu(x, predicate=mask))
    b.save(node, "y")
    assert "relu(%x) if %mask : float32<4 x 2>" in print_function(b.function())
    with pytest.raises(VerifyError, match="must be a bool vector of the batch's length"):
        Relu(x, predicate=b.input("short", "bool<3>"))
