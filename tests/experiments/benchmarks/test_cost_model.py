"""The table of what the cost model's picks cost."""

from dataclasses import replace

import pytest

from experiments.benchmarks.cost_model import Layer, excess_of, page
from glow_nb.backends.cpu.algorithms import Candidate
from glow_nb.base.plan import Plan

NARROW = Candidate(Plan.of("direct", block=16), 100.0)
WIDE = Candidate(Plan.of("direct", block=32), 120.0)


def layer(network: str, picked: float, other: float, count: int = 1) -> Layer:
    return Layer(network, "mat_mul", count, {NARROW: picked, WIDE: other})


def test_the_pick_is_the_way_with_the_least_estimate() -> None:
    assert layer("a", 2.0, 1.0).pick is NARROW
    assert layer("a", 2.0, 1.0).best is WIDE


def test_equal_layers_count_as_often_as_they_occur() -> None:
    layers = [layer("a", 2.0, 1.0, count=3), layer("a", 1.0, 2.0)]
    assert excess_of(layers) == pytest.approx(100 * (7 / 4 - 1))


def test_what_is_fastest_by_chance_counts_for_nothing() -> None:
    by_chance = replace(layer("a", 2.0, 1.0, count=3), repeated={NARROW: 2.0, WIDE: 2.5})
    assert by_chance.best is WIDE
    assert (by_chance.picked_seconds, by_chance.lost_seconds) == (6.0, -1.5)


def test_the_page_has_a_row_for_each_network_and_a_column_for_each_number_of_threads() -> None:
    one = [layer("a", 1.0, 1.0), layer("b", 1.1, 1.0)]
    text = page({1: one, 2: [layer("a", 1.2, 1.0), layer("b", 1.0, 1.0)]})
    assert "| network | products | 1 thread | 2 threads |" in text
    assert "| a | 1 | 0.0 | 20.0 |" in text
    assert "| b | 1 | 10.0 | 0.0 |" in text
