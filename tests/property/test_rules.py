"""Rules keep the meaning of drawn graphs, and of programs that use memory again and again."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from glow_nb.base.schema import operands_of
from glow_nb.extend import ANY, Rewrite, Rules, any_of, number, used_here, wildcards
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Function, Value
from glow_nb.hlir.ops import (
    Abs,
    Add,
    Ceil,
    Concat,
    Floor,
    Maximum,
    Minimum,
    Mul,
    Neg,
    Relu,
    Reshape,
    Split,
    Sub,
    Transpose,
)
from glow_nb.llir.generate import generate
from glow_nb.llir.lifetimes import mark_lifetimes
from glow_nb.llir.optimize.share_buffers import share_buffers
from glow_nb.llir.program import Activation, Buffer, Program, View
from glow_nb.llir.substitute import substitute
from tests.property.random_graphs import functions
from tests.property.test_meaning import check_function, check_program

x, y, z, a = wildcards("x y z a")

BOTH = (
    Rewrite(Relu(Relu(x)), Relu(x)),
    Rewrite(Neg(Neg(x)), x),
    Rewrite(Add(x, Neg(y)), Sub(x, y)),
    Rewrite(Add(Neg(x), Neg(y)), Neg(Add(x, y))),
    Rewrite(Abs(Neg(x)), Abs(x)),
    Rewrite(Abs(x), Maximum(x, Neg(x)), when=lambda x: x.type.rank == 2),
    Rewrite(Maximum(x, x), x),
    Rewrite(Maximum(x, Minimum(x, y)), x, when=lambda node, x: x.type == _type_of(node)),
    Rewrite(Mul(x, number(2)), Add(x, x), when=lambda node, x: x.type == _type_of(node)),
    Rewrite(Relu(used_here(Sub(x, y))), Sub(Maximum(x, y), y)),
    Rewrite(Sub(x, x), Mul(x, number(0))),
    Rewrite(any_of(Floor, Ceil, input=any_of(Floor, Ceil)), lambda node: None),
    Rewrite(Floor(Floor(x)), lambda x: Floor(x)),
    Rewrite(Maximum(Neg(x), Neg(y)), lambda x, y: Neg(Minimum(x, y))),
    Rewrite(Minimum(used_here(Add(x, y)), used_here(Add(z, y))), Add(Minimum(x, z), y)),
)
"""Rules that hold for both levels; no two of them undo each other."""

GRAPH_ONLY = (
    Rewrite(Reshape(Reshape(x, ANY), shape=a), Reshape(x, shape=a)),
    Rewrite(Concat((x,), axis=ANY), x),
    Rewrite(
        Transpose(Transpose(x, permutation=y), permutation=a),
        lambda x, y, a: Transpose(x, permutation=tuple(y[axis] for axis in a)),
    ),
    Rewrite(
        Concat((Split(x, a, ANY).results[1], Split(x, a, ANY).results[0]), axis=a),
        lambda: None,
    ),
)


def _type_of(node: Any) -> Any:
    """Return the type of what a node, or an instruction, makes."""
    return node.type if hasattr(node, "type") else node.dest.type


UNARY = (Relu, Neg, Abs, Floor, Ceil)
BINARY = (Add, Sub, Mul, Maximum, Minimum)


@st.composite
def small_functions(draw: st.DrawFn) -> Function:
    """Draw a function of few kinds of operators over tensors of one shape, which are read often."""
    b = Builder()
    rank = draw(st.integers(1, 2))
    shape = f"float32<{' x '.join(['3', '2'][:rank])}>"
    pool: list[Value] = [b.input(name, shape) for name in ("p", "q")]
    pool.append(b.constant("two", np.full((1,) * rank, 2, np.float32)))
    recent = st.integers(1, 4)
    for _ in range(draw(st.integers(3, 14))):
        operands = [pool[-min(draw(recent), len(pool))] for _ in range(2)]
        if draw(st.booleans()):
            made: Value = b.emit(draw(st.sampled_from(UNARY))(operands[0]))
        else:
            made = b.emit(draw(st.sampled_from(BINARY))(*operands))
        pool.append(made)
    b.save(pool[-1], "y")
    if draw(st.booleans()):
        b.save(pool[-draw(st.integers(2, 3))], "z")
    return b.function()


@st.composite
def rule_sets(draw: st.DrawFn, rules: tuple[Rewrite, ...]) -> Rules:
    if draw(st.booleans()):
        return Rules("all", *rules)
    chosen = draw(st.lists(st.sampled_from(rules), min_size=1, max_size=6, unique=True))
    return Rules("drawn", *chosen)


@st.composite
def written_again(draw: st.DrawFn, program: Program) -> Program:
    """Draw a program like *program* in which values lie where others are not needed any more."""
    if draw(st.booleans()):
        program = share_buffers(program)
    work, moved = program.work, dict[Buffer, Buffer]()
    spans: dict[Buffer, list[int]] = {}
    for place, instruction in enumerate(work):
        for buffer in operands_of(instruction):
            spans.setdefault(buffer.root, [place, place])[1] = place
    activations: list[Activation] = [root for root in spans if isinstance(root, Activation)]
    ends: dict[Buffer, int] = {root: spans[root][1] for root in activations}
    for later in activations:
        fitting = [
            earlier
            for earlier in activations
            if earlier not in moved
            and ends[earlier] < spans[later][0]
            and earlier.type == later.type
        ]
        if fitting and bool(draw(st.booleans())):
            host: Buffer = draw(st.sampled_from(fitting))
            moved[later] = View(later.name, later.type, host) if draw(st.booleans()) else host
            ends[host] = spans[later][1]
    return program.with_instructions(mark_lifetimes(substitute(work, moved)))


@given(small_functions(), rule_sets((*BOTH, *GRAPH_ONLY)))
def test_rules_keep_the_meaning_of_graphs_made_for_them(function: Function, rules: Rules) -> None:
    changed = rules(function)
    check_function(changed, function)
    assert rules(changed) is changed


@given(functions(max_nodes=16), rule_sets((*BOTH, *GRAPH_ONLY)))
def test_rules_keep_the_meaning_of_any_graph(function: Function, rules: Rules) -> None:
    check_function(rules(function), function)


@given(st.data(), small_functions(), rule_sets(BOTH))
def test_rules_keep_the_meaning_of_programs_that_write_again(
    data: st.DataObject, function: Function, rules: Rules
) -> None:
    program = data.draw(written_again(generate(function)))
    check_program(program, function)
    changed = rules(program)
    check_program(changed, function)
    assert rules(changed) is changed


@given(functions(max_nodes=12), rule_sets(BOTH))
def test_rules_keep_the_meaning_of_any_program(function: Function, rules: Rules) -> None:
    check_program(rules(share_buffers(generate(function))), function)
