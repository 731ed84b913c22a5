"""Rules and patterns that are refused when they are made, and how they are shown."""

from __future__ import annotations

import functools
import math
import pickle
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from glow_nb.base.errors import DefinitionError, GlowError
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
from glow_nb.hlir.graph import Constant
from glow_nb.hlir.ops import (
    Add,
    Clip,
    Concat,
    Convolution,
    Mul,
    Neg,
    Relu,
    Reshape,
    Split,
    Sub,
    Tanh,
    Transpose,
)
from glow_nb.hlir.save import Save
from glow_nb.llir.instructions.shape import CopyInst

x, y, z = wildcards("x y z")
CONSTANT = Constant.of("c", np.zeros(3, np.float32))


def chain(length: int) -> Any:
    """Return a sum of so many sums of sums."""
    found: Any = x
    for _ in range(length):
        found = Add(found, y)
    return found


def keep(x: Any) -> Any:
    return x


PATTERNS: list[tuple[str, Callable[[], object], str]] = [
    ("one name twice", lambda: wildcards("x x"), "'x' is given twice"),
    ("no name", lambda: wildcards(" "), "give names, as in wildcards('x y')"),
    ("no text", lambda: wildcards(3), "give names, as in wildcards('x y')"),  # type: ignore[arg-type]
    ("no identifier", lambda: wildcards("x 2y"), "wildcard '2y': give a valid name of a parameter"),
    ("keyword", lambda: wildcard("lambda"), "give a valid name of a parameter"),
    ("reserved", lambda: wildcards("node"), "are given something else by this name"),
    ("condition", lambda: wildcard("x", 3), "the condition 3 is no function"),  # type: ignore[arg-type]
    ("text as number", lambda: number("1"), "number('1'): give an int or a float"),  # type: ignore[arg-type]
    ("bool as number", lambda: number(True), "give an int or a float"),
    ("bad name", lambda: named("a b", Relu(x)), "give a valid name of a parameter"),
    ("named value", lambda: named("c", "c"), "named('c'): 'c' is no pattern"),
    ("unknown field", lambda: Clip(x, minimun=0.0), "no field 'minimun'; did you mean 'minimum'?"),  # type: ignore[call-arg]
    ("name field", lambda: Relu(x, name="r"), "no field 'name'"),
    ("too many", lambda: Relu(x, y), "2 fields in a row, but it takes input"),  # type: ignore[call-arg]
    ("twice", lambda: Relu(x, input=y), "'input' is given twice"),  # type: ignore[misc]
    ("no operand", lambda: Add(x, "1"), "add.rhs: '1' is no pattern"),  # type: ignore[arg-type]
    ("operator as attribute", lambda: Clip(x, minimum=Relu(y)), "is a value or a wildcard"),  # type: ignore[arg-type]
    ("wildcard in a tuple", lambda: Transpose(x, (y, 0)), "matches a whole attribute"),
    ("no classes", lambda: any_of(), "any_of(): give a class of operators"),
    ("no operator", lambda: any_of(int), "is no class of operators"),
    ("field of one", lambda: any_of(Relu, Add, lhs=x), "relu: a pattern of it has no field 'lhs'"),
    ("result", lambda: Split(x, 0, (1, 2)).results[-1], "give a number from 0 on"),
    ("written", lambda: CopyInst(Relu(x), y), "copy.dest: it is written"),  # type: ignore[arg-type]
    ("array", lambda: Clip(x, minimum=np.ones(2)), "clip.minimum: an attribute is a number"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("what", "make", "message"), PATTERNS, ids=[p[0] for p in PATTERNS])
def test_a_wrong_pattern_is_refused_when_it_is_made(
    what: str, make: Callable[[], object], message: str
) -> None:
    with pytest.raises(DefinitionError, match=re.escape(message)):
        make()


RULES: list[tuple[str, Callable[[], object], str]] = [
    ("no root", lambda: Rewrite(x, Relu(x)), "no operator at its root and would fit everything"),
    ("a number", lambda: Rewrite(number(1), x), "no operator at its root"),
    ("no pattern", lambda: Rewrite(CONSTANT, x), "it has no wildcards"),
    ("a class", lambda: Rewrite(Relu, x), "it has no wildcards"),
    ("a result", lambda: Rewrite(Split(x, 0, (1, 2)).results[0], x), "give the operator"),
    ("a value", lambda: Rewrite(Add(x, CONSTANT), x), "is a value of a graph"),
    ("used root", lambda: Rewrite(used_here(Relu(x)), x), "used_here is for operands"),
    ("side effects", lambda: Rewrite(Save(x, y), x), "'save' has side effects"),
    ("two of a name", lambda: Rewrite(Add(x, wildcard("x")), x), "two things are called 'x'"),
    (
        "name of a wildcard",
        lambda: Rewrite(Add(x, named("x", Relu(y))), x),
        "two things are called",
    ),
    (
        "both kinds",
        lambda: Rewrite(Add(x, Clip(y, minimum=x)), y),
        "'x' is an operand and an attribute",
    ),
    ("orders", lambda: Rewrite(chain(7), x), "have 128 possible orders, and at most 64"),
    ("unbound", lambda: Rewrite(Relu(x), Tanh(z)), "has 'z', which the pattern lacks; it has"),
    ("anything", lambda: Rewrite(Relu(ANY), Tanh(ANY)), "its replacement has ANY"),
    ("number alone", lambda: Rewrite(Relu(x), 1), "a number alone has no type"),
    ("numbers", lambda: Rewrite(Relu(x), Add(number(1), 2)), "only numbers as operands"),  # type: ignore[arg-type]
    ("marks", lambda: Rewrite(Relu(x), Neg(used_here(Relu(x)))), "cannot be built"),
    ("several", lambda: Rewrite(Relu(x), any_of(Relu, input=x)), "cannot be built"),
    ("value", lambda: Rewrite(Relu(x), Add(x, CONSTANT)), "a value of a graph; let a function"),
    ("needs", lambda: Rewrite(Relu(x), Transpose(x)), "needs 'permutation'"),  # type: ignore[call-arg]
    ("same", lambda: Rewrite(Relu(x), Relu(x)), "it replaces its pattern by the same again"),
    ("not called", lambda: Rewrite(Relu(x), None), "is None; give a function"),
    ("a type", lambda: Rewrite(Relu(x), Relu), "give a function whose parameters"),
    ("parameter", lambda: Rewrite(Relu(x), lambda v: v), "asks for 'v', which the pattern lacks"),
    (
        "condition",
        lambda: Rewrite(Relu(x), keep, when=lambda nodes: True),
        "its condition asks for 'nodes', which the pattern lacks; did you mean 'node'?",
    ),
    ("no condition", lambda: Rewrite(Relu(x), keep, when=True), "its condition is True"),  # type: ignore[arg-type]
    ("no signature", lambda: Rewrite(Relu(x), max), "its replacement cannot be called by names"),
    ("star", lambda: Rewrite(Relu(x), lambda *, x: x), "'x' comes after a '*'"),
    ("not a number", lambda: Rewrite(Add(x, math.nan), x), "no number equals NaN"),  # type: ignore[arg-type]
    ("name", lambda: Rewrite(Relu(x), x, name=3), "Rewrite(name=3): give a text"),  # type: ignore[arg-type]
    ("does", lambda: Rules("r", Rewrite(Relu(x), x), does=3), "rules 'r': does=3: give a text"),  # type: ignore[arg-type]
    ("no rules", lambda: Rules("none"), "there is no rule"),
    ("no rule", lambda: Rules("some", keep), "a function is no rule"),  # type: ignore[arg-type]
    ("no title", lambda: Rules(Rewrite(Relu(x), x)), "give a name and rules"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("what", "make", "message"), RULES, ids=[r[0] for r in RULES])
def test_a_wrong_rule_is_refused_when_it_is_made(
    what: str, make: Callable[[], object], message: str
) -> None:
    with pytest.raises(DefinitionError, match=re.escape(message)):
        make()


def test_a_rule_takes_graphs_and_programs_only() -> None:
    with pytest.raises(GlowError, match="takes a graph or a program, got 3"):
        Rewrite(Relu(x), Neg(x), name="mine")(3)


def test_patterns_and_rules_are_shown_as_text() -> None:
    one = Rewrite(Add(Mul(x, y), number(1)), Sub(Mul(x, y), number(-1)))
    assert str(one) == "add(mul(x, y), 1) -> sub(mul(x, y), -1)"
    assert one.__name__ == str(one)
    assert str(Rewrite(Concat((x, y), axis=ANY), keep)) == "concat((x, y), axis = ANY) -> keep"
    either = any_of(Relu, Tanh, input=Split(x, 0, (1, 2)).results[1])
    assert repr(either) == "relu | tanh(input = split(x, axis = 0, sizes = (1, 2))#1)"
    assert repr(Rules("both", one, Rewrite(Relu(x), x, name="r"))) == (
        "Rules 'both': add(mul(x, y), 1) -> sub(mul(x, y), -1); relu(x) -> x"
    )


def test_a_rule_made_of_a_function_has_its_name_and_says_what_it_does() -> None:
    @rule(Relu(x))
    def drop(x: Any) -> Any:
        """Drop it."""
        return x

    assert (drop.__name__, drop.__doc__) == ("drop", "Drop it.")
    assert Rules("several", drop, Rewrite(Neg(x), x), does="Drop some.").__doc__ == "Drop some."


def test_a_rule_is_pickled_with_its_wildcards() -> None:
    one = Rewrite(Add(Mul(x, x), number(1)), x, name="square")
    kept = pickle.loads(pickle.dumps(Rules("all", one, does="Nothing.")))
    assert (repr(kept), kept.__doc__, kept.compiled) == (repr(Rules("all", one)), "Nothing.", {})
    (lhs, rhs) = kept.rules[0].pattern.fields["lhs"].fields.values()
    assert lhs is rhs
    for level in ("hlir", "llir"):  # a process that reads it can apply it
        assert f"glow_nb.{level}.rewriting".encode() in pickle.dumps(one)


def test_functions_may_have_parameters_of_their_own_with_defaults() -> None:
    def scaled(x: Any, factor: float = 2.0) -> Any:
        return x

    assert Rewrite(Relu(x), scaled).replacement_names == ("x",)
    assert Rewrite(Relu(x), functools.partial(scaled, factor=3.0)).replacement_names == ("x",)


def test_what_is_built_without_patterns_is_a_node() -> None:
    b = CONSTANT
    assert isinstance(Add(b, b), Add)
    assert isinstance(Reshape(b, shape=(3, 1)), Reshape)
    with pytest.raises(TypeError):
        Convolution(b)  # type: ignore[call-arg]
