"""Scheduling: against every order of small graphs, and on shapes with a known best order."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given, settings

from glow_nb.base.schema import operands_of
from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Function, Node, Value, producer_of
from glow_nb.hlir.schedule import peak_bytes, schedule
from glow_nb.hlir.verify import verify
from tests.property.random_graphs import functions


def orders(nodes: tuple[Node, ...], done: tuple[Node, ...] = ()) -> Iterator[tuple[Node, ...]]:
    """Yield every order in which each node comes after those it reads."""
    if len(done) == len(nodes):
        yield done
        return
    for node in nodes:
        producers = {producer_of(value) for value in operands_of(node)} - {None}
        if node not in done and producers <= set(done):
            yield from orders(nodes, (*done, node))


@given(functions(max_nodes=5, max_states=0))
@settings(max_examples=60)
def test_no_order_of_a_small_graph_has_a_lower_peak(function: Function) -> None:
    if len(function.nodes) > 8:
        return
    best = min(peak_bytes(function.with_nodes(order)) for order in orders(function.nodes))
    assert peak_bytes(schedule(function)) == best


@given(functions(max_nodes=16))
def test_schedule_is_an_order_of_the_same_nodes(function: Function) -> None:
    scheduled = schedule(function)
    verify(scheduled)
    assert set(scheduled.nodes) == set(function.nodes)
    assert schedule(scheduled) is scheduled


def wide_branches(branches: int) -> Function:
    """Return branches that widen and shrink again, all widened first."""
    b = Builder()
    x = b.input("x", "float32<1 x 4>")
    wide: list[Value] = [b.emit(ops.Tile(x, (1, 100 + i))) for i in range(branches)]
    narrow = [b.emit(ops.ReduceSum(w, (1,), keep_dims=True)) for w in wide]
    total: Value = narrow[0]
    for value in narrow[1:]:
        total = b.emit(ops.Add(total, value))
    b.save(total, "y")
    return b.function()


@pytest.mark.parametrize("branches", [2, 5, 40])
def test_one_branch_is_done_before_the_next(branches: int) -> None:
    function = wide_branches(branches)
    widest = (100 + branches - 1) * 4 * 4
    assert peak_bytes(function) > 100 * 4 * 4 * (branches - 1)
    assert peak_bytes(schedule(function)) <= widest + 4 * branches


def test_what_neither_given_nor_depth_first_order_finds() -> None:
    """Two readers of one wide value: both must run before anything else is widened."""
    b = Builder()
    x = b.input("x", "float32<1 x 8>")
    kept: list[Value] = []
    for _ in range(3):
        wide = b.emit(ops.Tile(x, (1, 50)))
        kept += [b.emit(ops.ReduceSum(wide, (1,), keep_dims=True))]
        kept += [b.emit(ops.ReduceMax(wide, (1,), keep_dims=True))]
    first = b.emit(ops.Concat(tuple(kept[0::2]), 1))
    second = b.emit(ops.Concat(tuple(kept[1::2]), 1))
    b.save(first, "first")
    b.save(second, "second")
    function = b.function()
    wide_first = [n for n in function.nodes if isinstance(n, ops.Tile)]
    rest = [n for n in function.nodes if n not in wide_first]
    function = function.with_nodes([*wide_first, *rest])
    assert peak_bytes(schedule(function)) < 2 * 50 * 8 * 4
