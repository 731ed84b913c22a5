"""What patterns on graphs fit, and what not."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from glow_nb.base.errors import GlowError
from glow_nb.base.schema import operands_of
from glow_nb.base.types import ElementKind, TensorType
from glow_nb.extend import (
    ANY,
    Rewrite,
    any_of,
    is_constant,
    named,
    number,
    used_here,
    wildcard,
    wildcards,
)
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Function, Node, Value
from glow_nb.hlir.ops import (
    Abs,
    Add,
    AvgPool,
    Clip,
    Concat,
    Convolution,
    Exp,
    MatMul,
    Maximum,
    MaxPool,
    Mul,
    Neg,
    ReduceSum,
    Relu,
    Split,
    Sub,
    Swish,
    Tanh,
    Transpose,
)
from glow_nb.hlir.rewriting import rewrite_once
from tests.unit.hlir.rewriting.samples import built, chain, shown

x, y, z, a, s = wildcards("x y z a s")


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

    def is_known(y: Value) -> bool:
        found.append(y.name)
        return is_constant(y)

    rewritten = Rewrite(Mul(x, y), lambda x, y: Sub(x, y), when=is_known)(built(make))
    assert found == ["i0", "c"]
    assert [v.name for v in operands_of(rewritten["mul"])] == ["i0", "c"]
    constant = wildcard("y", is_constant)
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


def test_a_condition_that_raises_is_one_error_that_names_its_wildcard() -> None:
    def wrong(value: Value) -> bool:
        raise RuntimeError("no")

    told = r"pattern relu\(w\): a condition of w: RuntimeError: no \(line \d+ of test_"
    with pytest.raises(GlowError, match=told):
        Rewrite(Relu(wildcard("w", wrong)), lambda: None)(chain(Relu))


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
