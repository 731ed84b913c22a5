"""Passes keep integers bit for bit, NaN, infinities, and arbitrary samples after a predicate."""

from __future__ import annotations

import dataclasses

import numpy as np
from hypothesis import given

import glow_nb
from glow_nb.base.types import Array, ElementKind, TensorType
from glow_nb.hlir.evaluate import evaluate
from glow_nb.hlir.graph import Function, Placeholder
from glow_nb.hlir.optimize import GRAPH_PASSES
from glow_nb.hlir.verify import verify
from glow_nb.network import compilation as compiler
from tests.property.integer_graphs import integer_feeds, integer_functions
from tests.property.random_graphs import check_same, feeds_of, functions

SPECIAL = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 1.0, -1.5, 3e38], np.float32)

MOVING = (
    "eliminate_common_nodes",
    "eliminate_noops",
    "fold_constants",
    "gather_rows",
    "gathers_to_slices",
    "hoist_channel_gathers",
    "hoist_slices",
    "merge_clips",
    "merge_concats",
    "merge_conversions",
    "merge_slices",
    "raise_leaky_relu",
    "raise_swish",
    "simplify_arithmetic",
    "sink_broadcasts",
    "sink_channel_shuffles",
    "sink_reshapes",
    "sink_transposes",
)
"""Passes that only move elements, or use identities that hold for every number."""


def check_equal(function: Function, original: Function) -> None:
    if function is original:
        return
    verify(function)
    feeds = integer_feeds(original)
    want, got = evaluate(original, feeds), evaluate(function, feeds)
    for name, array in want.items():
        assert got[name].dtype == array.dtype, name
        np.testing.assert_array_equal(got[name], array, err_msg=name)


@given(integer_functions())
def test_each_pass_keeps_integers(function: Function) -> None:
    for name in GRAPH_PASSES.passes:
        check_equal(GRAPH_PASSES.run(function, (name,)), function)


@given(integer_functions(max_nodes=16))
def test_the_pipeline_keeps_integers(function: Function) -> None:
    check_equal(compiler.optimize(function), function)


@given(integer_functions(max_nodes=12))
def test_the_interpreter_keeps_integers(function: Function) -> None:
    net = glow_nb.compile(function, backend="interpreter")
    feeds = integer_feeds(function)
    want, got = evaluate(function, feeds), net.run(feeds)
    for name, array in want.items():
        np.testing.assert_array_equal(got[name], array, err_msg=name)


def special_feeds(function: Function) -> dict[str, Array]:
    rng = np.random.default_rng(0)
    return {p.name: rng.choice(SPECIAL, p.type.shape).astype(np.float32) for p in function.inputs}


@given(functions())
def test_passes_that_move_keep_nan_and_infinity(function: Function) -> None:
    feeds = special_feeds(function)
    want = evaluate(function, feeds)
    for name in MOVING:
        changed = GRAPH_PASSES.run(function, (name,))
        if changed is not function:
            check_same(evaluate(changed, feeds), want)


@given(functions(max_nodes=12))
def test_predicates_stay_with_what_they_guard(function: Function) -> None:
    """With a predicate on every node, no pass may mix up samples: all of them are wanted here."""
    guards = {
        size: Placeholder(f"guard_{size}", TensorType(ElementKind.BOOL, (size,)))
        for size in {n.type.shape[0] for n in function.nodes if n.type.rank}
    }
    guarded: dict[object, object] = {}
    nodes = []
    for index, node in enumerate(function.nodes):
        current = node.map_operands(lambda value: guarded.get(value, value))
        if index % 2 and node.type.rank and not node.has_side_effects:
            current = dataclasses.replace(current, predicate=guards[node.type.shape[0]])
        guarded.update(zip(node.results, current.results, strict=True))
        nodes.append(current)
    inputs = (*function.inputs, *guards.values())
    whole = dataclasses.replace(function, inputs=inputs, nodes=tuple(nodes))
    optimized = compiler.optimize(whole)
    verify(optimized)
    feeds = feeds_of(function) | {g.name: np.ones(g.type.shape, bool) for g in guards.values()}
    check_same(evaluate(optimized, feeds), evaluate(whole, feeds))
