"""What stays together when a program is cut."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest

from glow_nb.backends.interpreter import Interpreter
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Function
from glow_nb.hlir.ops import Add, MatMul, Tanh
from glow_nb.hlir.parse import parse_function
from glow_nb.hlir.save import Save
from glow_nb.network.compilation import lower_for
from glow_nb.runtime.planning.cuts import all_cuts, neighbours, ordered_cuts
from glow_nb.runtime.planning.split import stacked_program
from glow_nb.runtime.planning.units import Units, units_of
from tests.unit.runtime.networks import branches, chain, product, residual


def units_for(function: Function) -> Units:
    backend = Interpreter()
    return units_of(stacked_program(lower_for(function, backend), backend), backend.traits)


def sides(units: Units) -> list[set[str]]:
    """Return the nodes of each unit."""
    return [set(unit.nodes) for unit in units.units]


def test_kernels_of_a_chain_are_units_in_order() -> None:
    units = units_for(chain([8, 8, 8, 8]))
    assert units.is_chain
    assert all(
        before == ({number - 1} if number else set()) for number, before in enumerate(units.before)
    )
    assert all_cuts(units) == ordered_cuts(units)


def test_what_writes_one_region_stays_together() -> None:
    units = units_for(branches(3, 8))
    assert any({"branch0", "branch1", "branch2"} <= nodes for nodes in sides(units)), (
        "their kernels write windows of one tensor"
    )


def test_readers_and_writers_of_a_state_stay_together() -> None:
    b = Builder()
    x = b.input("x", "float32<4 x 4>")
    state = b.state("s", np.zeros((4, 4), np.float32))
    early = b.emit(MatMul(x, state, name="reader"))
    later = b.emit(MatMul(early, b.constant("c", np.ones((4, 4), np.float32)), name="between"))
    b.update(state, b.emit(Add(later, x, name="writer")))
    b.save(b.emit(MatMul(early, later, name="after")), "y")
    units = units_for(b.function())
    first = next(nodes for nodes in sides(units) if "reader" in nodes)
    assert {"reader", "between", "writer"} <= first, "what lies between the two, too"
    assert "after" not in first


def test_an_input_that_is_an_output_stays_with_all_that_touch_it() -> None:
    b = Builder()
    x = b.input("x", "float32<4 x 4>")
    b.save(b.emit(MatMul(x, x, name="reader")), "y")
    written = b.emit(MatMul(b.emit(Tanh(x)), x, name="writer"))
    b.emit(Save(written, x))
    made = b.function()
    assert len(units_for(dataclasses.replace(made, outputs=(*made.outputs, x))).units) == 1


def test_a_counted_output_stays_with_its_count() -> None:
    units = units_for(
        parse_function(
            """func @main(%x : float32<6>, %a : float32<4 x 4>)
                    -> (%y : int64<1 x 6> counted by %n along 1, %n : int64<>,
                        %z : float32<4 x 4>) {
              %places = non_zero(%x) : int64<1 x 6>, int64<>
              %negated = neg(%places#0) : int64<1 x 6>
              %product = mat_mul(%a, %a) : float32<4 x 4>
              %y_save = save(%negated, %y)
              %n_save = save(%places#1, %n)
              %z_save = save(%product, %z)
            }"""
        )
    )
    assert sorted(map(sorted, sides(units))) == [["negated", "places"], ["product"]]


def test_a_copy_for_the_caller_stays_with_what_it_copies() -> None:
    b = Builder()
    made = b.emit(
        MatMul(b.input("x", "float32<4 x 4>"), b.constant("c", np.ones((4, 4), np.float32)))
    )
    b.save(made, "y")
    b.save(made, "z")
    assert len(units_for(b.function()).units) == 1


@pytest.mark.parametrize("network", [lambda: residual(8), lambda: branches(4, 8)])
def test_each_cut_holds_what_its_units_read(network: Callable[[], Function]) -> None:
    units = units_for(network())
    cuts = all_cuts(units)
    assert cuts is not None
    assert len(set(cuts)) == len(cuts)
    assert set(ordered_cuts(units)) <= set(cuts)
    for cut in cuts:
        inside = {number for number in range(len(units.units)) if cut >> number & 1}
        assert all(units.before[number] <= inside for number in inside)


def apart(count: int) -> Function:
    """Return products that have nothing to do with each other."""
    b = Builder()
    for index in range(count):
        b.save(product(b, b.input(f"x{index}", "float32<4 x 4>"), 4), f"y{index}")
    return b.function()


def test_too_many_cuts_are_not_listed() -> None:
    assert all_cuts(units_for(apart(24))) is None


def test_neighbours_are_merged_where_little_goes_on() -> None:
    units = units_for(chain([8, 64, 8, 64, 8, 64, 8]))
    merged = units.merged(neighbours(units, 3, [1.0] * len(units.units)))
    assert len(merged.units) == 3
    between = [edge for edge in merged.edges if edge.producer is not None and edge.readers]
    assert [edge.size_bytes for edge in between] == [4 * 8 * 4] * 2
    assert sorted(n for unit in merged.units for n in unit.instructions) == list(range(12))
