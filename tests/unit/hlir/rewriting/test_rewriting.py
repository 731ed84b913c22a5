"""Rules on graphs: what comes instead, what does not fit there, and what never ends."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import glow_nb
from glow_nb.base.errors import GlowError, PassError
from glow_nb.base.size import Symbol
from glow_nb.base.types import ElementKind, TensorType
from glow_nb.extend import (
    ANY,
    Rewrite,
    Rules,
    number,
    rule,
    used_here,
    wildcards,
)
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Node, Value
from glow_nb.hlir.ops import (
    Abs,
    Add,
    Clip,
    ConvertTo,
    Exp,
    MatMul,
    Maximum,
    Mul,
    Neg,
    ReduceSum,
    Relu,
    Reshape,
    Tanh,
)
from glow_nb.hlir.optimize import GRAPH_PASSES
from glow_nb.hlir.rewriting import rewrite_once
from glow_nb.hlir.verify import verify
from glow_nb.llir.instructions.shape import CopyInst
from tests.unit.hlir.rewriting.samples import built, chain, shown

x, y = wildcards("x y")


def test_a_rule_is_applied_until_it_fits_no_more() -> None:
    same = Rewrite(Relu(Relu(x)), Relu(x))
    function = same(chain(Relu, Relu, Relu, Relu, Tanh))
    assert shown(function) == ["relu", "tanh"]
    assert same(function) is function


def test_a_result_keeps_its_name_and_stands_for_all_that_it_replaces() -> None:
    function = Rewrite(Neg(Neg(x)), Abs(Abs(x)))(chain(Relu, Neg, Neg))
    assert [node.name for node in function] == ["relu", "neg_1_abs", "neg_1", "y_save"]
    assert function.origins_of(function["neg_1"]) == ("neg", "neg_1")


def test_the_verifier_and_observers_see_a_rule_by_its_name() -> None:
    runs: list[str] = []
    same = Rewrite(Relu(Relu(x)), Relu(x), name="same")
    GRAPH_PASSES.run(chain(Relu, Relu), (same,), lambda run: runs.append(run.name))
    assert runs == ["same"]
    net = glow_nb.compile(chain(Abs, Abs), backend="interpreter", pipeline=(same, "fold_constants"))
    assert "same" in repr(net.pipeline)
    assert "relu(relu(x)) -> relu(x)" in repr(net.pipeline)
    whole = glow_nb.Pipeline((*glow_nb.INFERENCE, same))
    assert same in whole
    assert same not in whole.without("same")


def test_several_rules_look_at_each_node_once_and_the_first_that_fits_counts() -> None:
    first = Rewrite(Relu(x), Tanh(x), name="first")
    second = Rewrite(Relu(x), Neg(x), name="second")
    third = Rewrite(Abs(Tanh(x)), Exp(x), name="third")
    both = Rules("both", Rules("two", first, second), third)
    assert shown(both(chain(Relu, Abs))) == ["exp"]
    assert shown(rewrite_once(chain(Relu, Abs), both)) == ["tanh", "exp"]


def test_functions_may_emit_count_uses_and_decline() -> None:
    @rule(Neg(x))
    def clipped(node: Neg, x: Value, rewriter: glow_nb.Rewriter) -> Value | None:
        low = rewriter.emit(Abs(x))
        return Clip(low, minimum=float(rewriter.use_count(x))) if node.name == "neg_1" else None

    function = clipped(chain(Neg, Neg))
    assert [node.name for node in function] == ["neg", "neg_1_abs", "neg_1", "y_save"]
    assert function["neg_1"].minimum == 1.0


def test_a_function_may_build_around_the_node_that_it_replaces() -> None:
    around = Rewrite(Neg(x), lambda node: Abs(Tanh(node)))
    once = rewrite_once(chain(Neg), around)
    assert shown(once) == ["neg", "tanh", "abs"]
    assert [node.name for node in once] == ["neg", "neg_tanh", "neg_abs", "y_save"]


def test_nodes_that_a_function_shares_are_made_once() -> None:
    def twice(x: Value) -> Node:
        inner = Tanh(x)
        return Add(inner, Mul(inner, number(2)))

    assert shown(Rewrite(Neg(x), twice)(chain(Neg))) == ["tanh", "mul", "add"]


def test_a_replacement_of_another_type_is_refused_with_both_types() -> None:
    flat = Rewrite(Relu(x), lambda x: ReduceSum(x, axes=(0,), keep_dims=True), name="flat")
    told = (
        "rule 'flat': it would replace relu %relu : float32<4> by what is float32<1>; "
        "give it a condition (when=...)"
    )
    with pytest.raises(GlowError, match=re.escape(told)):
        flat(chain(Relu))
    with pytest.raises(PassError, match=r"pass 'set' .*rule 'flat': it would replace"):
        GRAPH_PASSES.run(chain(Relu), (Rules("set", flat),))
    kind = Rewrite(Relu(x), ConvertTo(x, kind=ElementKind.FLOAT64))
    with pytest.raises(GlowError, match="float32<4> by what is float64<4>"):
        kind(chain(Relu))


@pytest.mark.parametrize(
    ("replacement", "message"),
    [
        (lambda x: 3, "its replacement of relu %relu is 3; it must be a value"),
        (lambda x: (x, x), "by what is float32<4>, float32<4>"),
        (lambda x: x.nothing, r"AttributeError: .*nothing.* \(line \d+ of test_rewriting.py"),
        (lambda x: MatMul(x, x), "the replacement of relu %relu does not fit: .*must be matrices"),
        (lambda x: used_here(Add(x, number(1))), "cannot be built"),
        (lambda x: Add(number(1), number(2)), "no operand except the number"),
        (lambda: Neg(y), "y cannot be built.* is passed to the parameter of its name"),
        (lambda x: Clip(Neg(x), minimum=y), "y cannot be built"),
        (lambda x: Add(x, number(1e300)), r"float32 cannot represent 1e\+300"),
    ],
)
def test_what_a_rule_makes_must_fit(replacement: Any, message: str) -> None:
    with pytest.raises(GlowError, match=message):
        Rewrite(Relu(x), replacement, name="mine")(chain(Relu))


@pytest.mark.parametrize("value", [2.5, 2**40, 128.0, float("inf")])
def test_a_number_that_a_kind_of_integers_does_not_have_is_refused(value: float) -> None:
    function = built(lambda b, v: b.emit(Relu(v)), "int8<4>")
    told = f"int8 cannot represent {re.escape(repr(value))}; give the rule a condition"
    with pytest.raises(GlowError, match=told):
        Rewrite(Relu(x), Maximum(x, number(value)))(function)
    assert shown(Rewrite(Relu(x), Maximum(x, number(2.0)))(function)) == ["maximum"]


def test_rules_that_undo_each_other_end_in_an_error_that_names_them() -> None:
    there = Rewrite(Relu(x), Clip(x, minimum=0.0), name="there")
    back = Rewrite(Clip(x, minimum=0.0), Relu(x), name="back")
    innocent = Rewrite(Neg(Neg(x)), x, name="innocent")
    with pytest.raises(GlowError, match=r"rules 'there', 'back' come to no end.*as it was before"):
        Rules("all", innocent, there, back)(chain(Neg, Neg, Relu))


def test_a_rule_that_feeds_itself_ends_in_an_error_that_names_it() -> None:
    grows = Rewrite(Relu(x), Relu(Neg(x)), name="grows")
    with pytest.raises(GlowError, match=r"rule 'grows' comes to no end: after [1-9]\d* replacem"):
        grows(chain(Relu, Tanh))
    numbers = Rewrite(Add(x, number(1)), Add(x, number(1.0)), name="numbers")
    with pytest.raises(GlowError, match=r"rule 'numbers' comes to no end"):
        numbers(built(lambda b, v: b.emit(Add(v, b.constant("one", np.ones(1, np.float32))))))


def test_a_rule_that_goes_up_a_long_chain_comes_to_its_end() -> None:
    hoist = Rewrite(Abs(Tanh(x)), Tanh(Abs(x)))
    assert shown(hoist(chain(*[Tanh] * 60, Abs))) == ["abs", *["tanh"] * 60]


def test_open_sizes_that_do_not_surely_fit_keep_a_node() -> None:
    n, m = Symbol("n", 4).size, Symbol("m", 4).size
    b = Builder()
    left = b.input("left", TensorType(ElementKind.FLOAT32, (n,)))
    right = b.input("right", TensorType(ElementKind.FLOAT32, (m,)))
    b.save(b.emit(Add(b.emit(Reshape(left, shape=(n, 1))), b.emit(Reshape(right, (1, m))))), "y")
    b.save(b.emit(Relu(left)), "z")
    function = b.function()
    taken = Rewrite(Add(Reshape(x, ANY), Reshape(y, ANY)), lambda x, y: Add(x, y))
    assert taken(function) is function
    assert "neg" in shown(Rewrite(Relu(x), Neg(x))(function))


def test_a_rule_about_instructions_is_refused_on_a_graph() -> None:
    with pytest.raises(GlowError, match=r"is about the instruction 'copy', and a graph has none"):
        Rewrite(CopyInst(y, x), x, name="copies")(chain(Relu))


def test_states_and_updates_stay() -> None:
    b = Builder()
    state = b.state("state", np.ones(4, np.float32))
    b.update(state, b.emit(Relu(b.emit(Relu(state)))))
    function = Rewrite(Relu(Relu(x)), Relu(x))(b.function())
    verify(function)
    assert [node.opcode for node in function] == ["relu", "save"]
