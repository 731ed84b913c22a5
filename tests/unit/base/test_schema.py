"""One declaration is enough: fields, operands, attributes, equality, copies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from glow_nb.base.attributes import check_attributes
from glow_nb.base.errors import DefinitionError, GlowError, GlowWarning, VerifyError
from glow_nb.base.schema import (
    Registry,
    RuleTable,
    attributes_of,
    fields_of,
    listed,
    map_operands,
    operands_of,
    structural_key,
)
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Value, define_node
from glow_nb.hlir.ops import Add, Clip, Concat, Gelu, LayerNormalization, Relu, Transpose


@pytest.fixture
def builder() -> Builder:
    return Builder()


def test_annotations_say_what_is_an_operand() -> None:
    specs = {spec.name: spec for spec in fields_of(LayerNormalization)}
    assert specs["input"].is_operand and not specs["input"].is_optional
    assert specs["bias"].is_operand and specs["bias"].is_optional
    assert not specs["axis"].is_operand
    assert fields_of(Concat)[0].is_variadic


def test_operands_are_flattened_and_absent_ones_left_out(builder: Builder) -> None:
    x = builder.input("x", "float32<2 x 3>")
    scale = builder.constant("s", np.ones(3, np.float32))
    assert list(operands_of(Concat((x, x), axis=0))) == [x, x]
    node = LayerNormalization(x, scale, None, axis=1, epsilon=1e-5)
    assert list(operands_of(node)) == [x, scale]


def test_map_operands_returns_the_same_object_if_nothing_changed(builder: Builder) -> None:
    x, y = builder.input("x", "float32<2>"), builder.input("y", "float32<2>")
    node = Add(x, x)
    assert map_operands(node, lambda v: v) is node
    changed = map_operands(node, lambda v: y)
    assert changed is not node
    assert (changed.lhs, changed.rhs) == (y, y)


def test_structural_key_tells_values_apart_that_compare_equal(builder: Builder) -> None:
    x = builder.input("x", "float32<2>")
    zero, negative = (Clip(x, minimum=z, maximum=1.0) for z in (0.0, -0.0))
    assert structural_key(zero) != structural_key(negative)
    assert structural_key(Relu(x)) == structural_key(Relu(x, name="other"))


@dataclass(frozen=True, eq=False)
class Pair:
    """Something with two operands that may be absent."""

    first: Value | None
    second: Value | None


def test_structural_key_tells_which_operands_are_absent(builder: Builder) -> None:
    x = builder.input("x", "float32<2>")
    assert structural_key(Pair(x, None)) != structural_key(Pair(None, x))
    assert structural_key(Pair(x, None)) == structural_key(Pair(x, None))


def test_structural_key_may_count_operands_as_others(builder: Builder) -> None:
    x, y = builder.input("x", "float32<2>"), builder.input("y", "float32<2>")
    assert structural_key(Add(x, y)) != structural_key(Add(x, x))
    assert structural_key(Add(x, y), lambda _: x) == structural_key(Add(x, x))


def test_attributes_are_fitted_or_refused(builder: Builder) -> None:
    x = builder.input("x", "float32<2 x 3>")
    node = Transpose(x, permutation=[1, np.int64(0)])  # type: ignore[arg-type]
    assert attributes_of(node) == {"permutation": (1, 0)}
    assert type(node.permutation[1]) is int
    assert Clip(x, minimum=0, maximum=6).maximum == 6.0
    with pytest.raises(GlowError, match="'minimum' must be float, got 10{39}"):
        Clip(x, minimum=10**400, maximum=1.0)
    with pytest.raises(GlowError, match="'minimum' must be float, got 'low'"):
        Clip(x, minimum="low", maximum=1.0)  # type: ignore[arg-type]
    with pytest.raises(GlowError, match=r"'permutation' must be tuple\[int, \.\.\.\], got"):
        Transpose(x, permutation=(True, False))
    wanted = "gelu %.*: 'approximate' must be 'none' or 'tanh', got 'about'"
    with pytest.raises(VerifyError, match=wanted):
        Gelu(x, approximate="about")


def test_an_attribute_that_text_cannot_hold_is_refused_at_definition() -> None:
    with pytest.raises(DefinitionError, match="cannot be printed and parsed"):

        @define_node("broken_for_the_test")
        class Broken(Relu):
            table: dict[str, int]


def test_registry_helps_with_typos_and_refuses_a_second_owner() -> None:
    registry: Registry[str, int] = Registry("thing")
    registry.add("convolution", 1)
    with pytest.raises(GlowError, match="unknown thing 'convolutoin'; did you mean 'convolution'?"):
        registry["convolutoin"]
    with pytest.raises(DefinitionError, match="thing 'convolution' is already registered by 1"):
        registry.add("convolution", 2)


def test_a_rule_that_is_registered_again_replaces_the_first_with_a_notice() -> None:
    table: RuleTable[type, Callable[[], int]] = RuleTable("size of")

    @table.register(int, str)
    def first() -> int:
        return 1

    assert table[int] is table[str] is first
    with pytest.warns(GlowWarning, match="size of 'int' is defined again in") as notices:

        @table.register(int)
        def second() -> int:
            return 2

    assert (table[int], table[str]) == (second, first)
    assert notices[0].filename == __file__


def test_check_attributes_ignores_operands() -> None:
    @dataclass(frozen=True)
    class Plain:
        value: Value | None
        size: int

    check_attributes(Plain(None, 3))
    with pytest.raises(GlowError, match="'size' must be int, got 3.5"):
        check_attributes(Plain(None, 3.5))  # type: ignore[arg-type]


def test_no_names_are_listed_as_none() -> None:
    assert listed(["x", "y"]) == "['x', 'y']"
    assert listed({}) == "none"
