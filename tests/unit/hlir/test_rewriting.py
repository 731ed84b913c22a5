"""Rules on graphs: what fits, what is built, what must not be crossed, and what never ends."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import numpy as np
import pytest

import glow_nb
from glow_nb.base.errors import GlowError, PassError
from glow_nb.base.schema import operands_of
from glow_nb.base.size import Symbol
from glow_nb.base.types import ElementKind, TensorType
from glow_nb.extend import (
    ANY,
    Rewrite,
    Rules,
    any_of,
    named,
    number,
    rule,
    used_here,
    wildcard,
    wildcards,
)
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Function, Node, Value
from glow_nb.hlir.known import is_known
from glow_nb.hlir.ops import (
    Abs,
    Add,
    AvgPool,
    Clip,
    Concat,
    ConvertTo,
    Convolution,
    Exp,
    MatMul,
    Maximum,
    MaxPool,
    Mul,
    Neg,
    ReduceSum,
    Relu,
    Reshape,
    Split,
    Sub,
    Swish,
    Tanh,
    Transpose,
)
from glow_nb.hlir.optimize import GRAPH_PASSES
from glow_nb.hlir.rewriting import rewrite_once
from glow_nb.hlir.verify import verify
from glow_nb.llir.instructions.shape import CopyInst

x, y, z, a, s = wildcards("x y z a s")


def built(make: Any, *shapes: str) -> Function:
    """Return the function whose output is what *make* builds of a builder and inputs."""
    b = Builder()
    inputs = [b.input(f"i{n}", shape) for n, shape in enumerate(shapes or ("float32<4>",))]
    made = make(b, *inputs)
    for index, value in enumerate(made if isinstance(made, list) else [made]):
        b.save(value, f"y{index}" if index else "y")
    return b.function()


def chain(*kinds: Any) -> Function:
    """Return a function of operators of one operand, one after the other."""

    def make(b: Builder, value: Value) -> Value:
        for kind in kinds:
            value = b.emit(kind(value))
        return value

    return built(make)


def shown(function: Function) -> list[str]:
    verify(function)
    return [node.opcode for node in function if node.opcode != "save"]


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


@pytest.mark.parametrize("is_swapped", [False, True])
def test_operands_that_commute_are_looked_for_in_both_orders(is_swapped: bool) -> None:
    def make(b: Builder, left: Value, right: Value) -> Value:
        pair = (b.emit(Neg(left)), right)
        return b.emit(Add(*(pair[::-1] if is_swapped else pair)))

    shapes = ("float32<4>", "float32<4>")
    assert shown(Rewrite(Add(x, Neg(y)), Sub(x, y))(built(make, *shapes))) == ["sub"]

    def difference(b: Builder, left: Value, right: Value) -> Value:
        pair = (b.emit(Neg(left)), right)
        return b.emit(Sub(*(pair[::-1] if is_swapped else pair)))

    sums = Rewrite(Sub(x, Neg(y)), Add(x, y))(built(difference, *shapes))
    assert shown(sums) == (["add"] if is_swapped else ["neg", "sub"])


def test_a_condition_chooses_among_the_orders_of_operands() -> None:
    def make(b: Builder, value: Value) -> Value:
        return b.emit(Mul(b.constant("c", np.full(4, 3, np.float32)), value))

    found: list[str] = []

    def is_constant(y: Value) -> bool:
        found.append(y.name)
        return is_known(y)

    rewritten = Rewrite(Mul(x, y), lambda x, y: Sub(x, y), when=is_constant)(built(make))
    assert found == ["i0", "c"]
    assert [v.name for v in operands_of(rewritten["mul"])] == ["i0", "c"]
    constant = wildcard("y", is_known)
    assert shown(Rewrite(Mul(x, constant), Sub(x, constant))(built(make))) == ["sub"]


def test_one_order_is_enough_where_both_operands_are_the_same() -> None:
    asked: list[int] = []
    double = Rewrite(Add(x, y), x, when=lambda: asked.append(1))
    double(built(lambda b, value: b.emit(Add(value, value))))
    assert len(asked) == 1


def test_a_wildcard_that_is_there_twice_is_one_value() -> None:
    square = Rewrite(Mul(x, x), Abs(x))
    two = ("float32<4>", "float32<4>")
    assert shown(square(built(lambda b, v, w: b.emit(Mul(v, v)), *two))) == ["abs"]
    assert shown(square(built(lambda b, v, w: b.emit(Mul(v, w)), *two))) == ["mul"]


def test_a_pattern_that_is_there_twice_is_one_node() -> None:
    power = used_here(Exp(x))
    soft = Rewrite(Maximum(power, ReduceSum(power, axes=(0,), keep_dims=True)), Exp(x))

    def make(b: Builder, value: Value, *, shares: bool = True, reads: bool = False) -> Any:
        one = b.emit(Exp(value))
        other = one if shares else b.emit(Exp(value))
        top = b.emit(Maximum(one, b.emit(ReduceSum(other, axes=(0,), keep_dims=True))))
        return [top, one] if reads else top

    assert shown(soft(built(make))) == ["exp"]
    assert "maximum" in shown(soft(built(lambda b, v: make(b, v, shares=False))))
    assert "maximum" in shown(soft(built(lambda b, v: make(b, v, reads=True))))


@pytest.mark.parametrize("other", ["node", "output", "nothing"])
def test_a_value_that_something_else_reads_is_not_used_here(other: str) -> None:
    def make(b: Builder, value: Value) -> Any:
        inner = b.emit(Neg(value))
        top = b.emit(Relu(inner))
        if other == "node":
            return [top, b.emit(Tanh(inner))]
        return [top, inner] if other == "output" else top

    alone = Rewrite(Relu(used_here(Neg(x))), Abs(x))
    assert ("abs" in shown(alone(built(make)))) is (other == "nothing")
    anywhere = shown(Rewrite(Relu(Neg(x)), Abs(x))(built(make)))
    assert "abs" in anywhere
    assert ("neg" in anywhere) is (other != "nothing")


def test_a_field_that_is_left_out_has_its_default() -> None:
    plain = Rewrite(Swish(x), Tanh(x))
    every = Rewrite(Swish(x, alpha=a), Clip(x, minimum=a), when=lambda a: a > 0)
    half = chain(lambda v: Swish(v, alpha=0.5))
    assert shown(plain(half)) == ["swish"]
    assert shown(plain(chain(Swish))) == ["tanh"]
    clip = every(half)["swish"]
    assert isinstance(clip, Clip)
    assert clip.minimum == 0.5
    assert shown(Rewrite(Swish(x, alpha=0.5), Tanh(x))(half)) == ["tanh"]
    assert shown(Rewrite(Swish(x, alpha=ANY), Tanh(x))(half)) == ["tanh"]


def test_a_field_without_a_default_may_be_anything_if_it_is_left_out() -> None:
    turn: Any = [1, 0]
    kept = Rewrite(Neg(Transpose(x, permutation=turn)), Transpose(Neg(x), permutation=(1, 0)))
    twice = built(
        lambda b, v: b.emit(Neg(b.emit(Transpose(v, permutation=(1, 0))))), "float32<2 x 3>"
    )
    assert shown(kept(twice)) == ["neg", "transpose"]
    other = Rewrite(Neg(Transpose(x, permutation=(0, 1))), Neg(x))
    assert other(twice) is twice


def test_a_product_with_wide_sums_is_another_one() -> None:
    def make(b: Builder, left: Value, right: Value) -> Value:
        return b.emit(Relu(b.emit(MatMul(left, right, wide=True))))

    wide = built(make, "bfloat16<2 x 3>", "bfloat16<3 x 4>")
    narrow = Rewrite(Relu(MatMul(x, y)), Tanh(MatMul(x, y)))
    assert narrow(wide) is wide
    w = wildcard("w")
    both = Rewrite(Relu(MatMul(x, y, wide=w)), Tanh(MatMul(x, y, wide=w)))(wide)
    assert [node.wide for node in both if isinstance(node, MatMul)] == [True]
    assert both["relu"].type == TensorType(ElementKind.FLOAT32, (2, 4))


def test_nodes_with_a_predicate_fit_only_where_a_pattern_has_one() -> None:
    def make(b: Builder, value: Value, mask: Value) -> Value:
        return b.emit(Relu(b.emit(Neg(value, predicate=mask))))

    masked = built(make, "float32<4 x 2>", "bool<4>")
    assert Rewrite(Relu(Neg(x)), Abs(x))(masked) is masked
    assert Rewrite(Relu(any_of(Neg)), lambda node: None)(masked) is masked
    p = wildcard("p")
    taken = Rewrite(Relu(Neg(x, predicate=p)), Abs(x, predicate=p))(masked)
    assert taken["relu"].predicate is taken.inputs[1]


def test_any_of_some_classes_with_any_other_fields() -> None:
    window: dict[str, Any] = {
        "kernel": (2, 2),
        "stride": (1, 1),
        "pads": (0, 0, 0, 0),
        "dilation": (1, 1),
    }
    shape = "float32<1 x 4 x 4 x 2>"

    def pool_of(kind: Any) -> Function:
        return built(lambda b, v: b.emit(kind(b.emit(Relu(v)), **window)), shape)

    def hoisted(node: Any, x: Value) -> Node:
        return Relu(dataclasses.replace(node, input=x, name=""))

    hoist = Rewrite(any_of(MaxPool, AvgPool, input=used_here(Relu(x))), hoisted)
    for kind in (MaxPool, AvgPool):
        assert shown(hoist(pool_of(kind)))[-1] == "relu"
    inner = named("inner", any_of(MaxPool))
    name = Rewrite(Relu(inner), lambda inner: inner, when=lambda inner: inner.kernel == (2, 2))
    assert shown(name(hoist(pool_of(MaxPool)))) == ["max_pool"]


def test_numbers_fit_constants_of_one_number_and_are_made_beside_an_operand() -> None:
    def make(b: Builder, value: Value) -> Value:
        return b.emit(Mul(value, b.constant("ones", np.ones((3, 4), np.float32))))

    drop = Rewrite(Mul(x, number(1)), Sub(x, number(2.5)))
    function = drop(built(make, "float32<3 x 4>"))
    (constant,) = function.constants
    assert (constant.type, constant.array.item()) == (TensorType(ElementKind.FLOAT32, (1, 1)), 2.5)
    twos = built(lambda b, v: b.emit(Mul(v, b.constant("c", np.full(4, 2, np.float32)))))
    assert drop(twos) is twos


def test_results_of_several_and_operands_of_any_number() -> None:
    def make(b: Builder, value: Value) -> Value:
        parts = b.emit(Split(value, axis=0, sizes=(2, 2))).results
        return b.emit(Concat(parts[::-1], axis=0))

    halves = Split(x, axis=ANY, sizes=s)
    swap = Rewrite(Concat((halves.results[1], halves.results[0]), axis=a), lambda x: Neg(x))
    keep = Rewrite(Concat((halves.results[0], halves.results[1]), axis=a), x)
    assert shown(swap(built(make))) == ["neg"]
    function = built(make)
    assert keep(function) is function
    parts = Rewrite(Concat(y, axis=a), lambda y, a: Concat(y[::-1], axis=a))
    assert shown(keep(rewrite_once(function, parts))) == []
    split = Rewrite(Split(x, axis=a, sizes=s), Split(Neg(x), axis=a, sizes=s), when=_is_input)
    assert shown(split(function)) == ["neg", "split", "concat"]


def _is_input(x: Value) -> bool:
    return not isinstance(x, Node)


def test_an_operand_that_is_left_out_fits_a_wildcard_and_none() -> None:
    from glow_nb.hlir.ops import LayerNormalization

    def make(b: Builder, value: Value) -> Value:
        scale = b.constant("scale", np.ones(4, np.float32))
        return b.emit(LayerNormalization(value, scale, None, axis=1, epsilon=0.5))

    plain = built(make, "float32<3 x 4>")
    bare = Rewrite(LayerNormalization(x, number(1), None, axis=a, epsilon=ANY), Tanh(x))
    assert shown(bare(plain)) == ["tanh"]
    some = Rewrite(LayerNormalization(x, y, z, axis=a, epsilon=ANY), lambda x, z: z or Tanh(x))
    assert shown(some(plain)) == ["tanh"]


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
        (lambda x: MatMul(x, x), "what it makes of relu %relu does not fit: .*must be matrices"),
        (lambda x: used_here(Add(x, number(1))), "cannot be built"),
        (lambda x: Add(number(1), number(2)), "no operand beside the number"),
        (lambda: Neg(y), "y cannot be built.* is given to a parameter of its name"),
        (lambda x: Clip(Neg(x), minimum=y), "y cannot be built"),
        (lambda x: Add(x, number(1e300)), r"float32 does not have the number 1e\+300"),
    ],
)
def test_what_a_rule_makes_must_fit(replacement: Any, message: str) -> None:
    with pytest.raises(GlowError, match=message):
        Rewrite(Relu(x), replacement, name="mine")(chain(Relu))


@pytest.mark.parametrize("value", [2.5, 2**40, 128.0, float("inf")])
def test_a_number_that_a_kind_of_integers_does_not_have_is_refused(value: float) -> None:
    function = built(lambda b, v: b.emit(Relu(v)), "int8<4>")
    told = f"int8 does not have the number {re.escape(repr(value))}; give the rule a condition"
    with pytest.raises(GlowError, match=told):
        Rewrite(Relu(x), Maximum(x, number(value)))(function)
    assert shown(Rewrite(Relu(x), Maximum(x, number(2.0)))(function)) == ["maximum"]


def test_a_condition_that_raises_is_one_error_that_names_its_wildcard() -> None:
    def wrong(value: Value) -> bool:
        raise RuntimeError("no")

    told = r"pattern relu\(w\): a condition of w: RuntimeError: no \(line \d+ of test_"
    with pytest.raises(GlowError, match=told):
        Rewrite(Relu(wildcard("w", wrong)), lambda: None)(chain(Relu))


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


def test_a_pattern_of_many_orders_is_looked_for_in_little_time() -> None:
    asked: list[int] = []

    def make(b: Builder, value: Value) -> Value:
        for _ in range(40):
            value = b.emit(Add(b.emit(Neg(value)), b.emit(Abs(value))))
        return value

    total: Any = x
    for _ in range(6):
        total = Add(total, any_of(Neg, Abs, Add))
    Rewrite(total, x, when=lambda: asked.append(1))(built(make))
    assert len(asked) <= 64 * 40


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


def test_a_convolution_is_found_without_all_its_attributes() -> None:
    weights = np.ones((3, 1, 1, 2), np.float32)

    def make(b: Builder, value: Value) -> Value:
        product = Convolution(
            value,
            b.constant("w", weights),
            b.constant("b", np.zeros(3, np.float32)),
            kernel=(1, 1),
            stride=(1, 1),
            pads=(0, 0, 0, 0),
            dilation=(1, 1),
            group=1,
        )
        return b.emit(Relu(b.emit(product)))

    function = built(make, "float32<1 x 4 x 4 x 2>")
    inner = named("inner", any_of(Convolution, bias=number(0)))
    assert shown(Rewrite(Relu(inner), lambda inner: inner)(function)) == ["convolution"]
