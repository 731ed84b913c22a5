"""The work of every step before code grows with the size of a graph, not with its square.

Work is counted, not timed: the calls of functions, as Python's profiler sees them. What happens
inside of one call, such as a set operation, is not seen; ``experiments/benchmarks/scaling.py``
takes the time.
"""

from __future__ import annotations

import copy
import cProfile
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import glow_nb
from experiments.networks.scaling_graphs import (
    SHAPES,
    Shape,
    chain,
    concat,
    draw_function,
    draw_model,
    inputs,
    layers,
    layouts,
    side_by_side,
    slices,
    slices_inside,
    slices_of_concat,
    tree,
)
from glow_nb.backends import backend_named
from glow_nb.compiler import pipelines
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.evaluate import evaluate
from glow_nb.hlir.graph import Value
from glow_nb.hlir.ops import Reshape
from glow_nb.hlir.optimize.merge_slices import merge_slices
from glow_nb.hlir.parse import parse_function
from glow_nb.hlir.print import print_function
from glow_nb.llir.check_placement import check_placement
from glow_nb.llir.parse import parse_program
from glow_nb.llir.print import print_program
from glow_nb.llir.program import Program
from glow_nb.network import compilation as compiler
from tests.in_turn import left_out, marked

FACTOR = 4
MOST = 1.5 * FACTOR
"""How much more work a graph may be that is larger by :data:`FACTOR`; its square would be 16."""


def planned(graph: Any) -> Program:
    """Return *graph* as a program with a checked placement: all that comes before code."""
    function = glow_nb.load(graph)
    cpu = backend_named("cpu")
    program = compiler.build_program(compiler.lower_for(function, cpu), cpu)
    check_placement(program)
    return program


def calls_of(work: Callable[[], object]) -> int:
    """Return how many functions *work* calls."""
    profile = cProfile.Profile()
    profile.enable()
    try:
        work()
    finally:
        profile.disable()
    return sum(entry.callcount for entry in profile.getstats())


SEEN = [concat, inputs, layers, side_by_side, slices, slices_inside, tree]
"""Graphs for the slow run: others have parts of them."""


@pytest.mark.parametrize("size", [24, pytest.param(120, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "shape", marked(SHAPES, slow=SEEN + left_out(2, SHAPES)), ids=lambda shape: shape.__name__
)
def test_work_grows_with_the_size(shape: Shape, size: int) -> None:
    """The slow run also has sums one by one, and slices of a value that no concat has made."""
    planned(draw_model(shape, size // 8))  # what is done once, such as looking up operators
    small, large = (draw_model(shape, each) for each in (size, FACTOR * size))
    few, many = calls_of(lambda: planned(small)), calls_of(lambda: planned(large))
    assert many < MOST * few


def test_what_cuts_a_wide_concat_again_is_found_at_once() -> None:
    small, large = (draw_function(slices_of_concat, size) for size in (200, FACTOR * 200))
    merge_slices(small)  # what is done once
    few, many = calls_of(lambda: merge_slices(small)), calls_of(lambda: merge_slices(large))
    assert many < MOST * few


DEEP = 2 * sys.getrecursionlimit()


@pytest.mark.parametrize("shape", [chain, layouts], ids=lambda shape: shape.__name__)
def test_a_long_chain_is_handled_without_recursion(shape: Shape) -> None:
    function = draw_function(shape, DEEP)
    assert len(function.use_counts) >= DEEP // 2
    text = print_function(function)
    assert print_function(parse_function(text)) == text
    assert print_function(copy.deepcopy(function)) == text
    assert copy.deepcopy(function.nodes[-1]) is function.nodes[-1]
    assert len({*function.nodes, repr(function.nodes)}) == len(function.nodes) + 1
    x = np.ones(function.inputs[0].type.shape, np.float32)
    assert evaluate(function, {function.inputs[0].name: x})
    program = planned(function)
    assert print_program(parse_program(print_program(program))) == print_program(program)
    assert print_program(copy.deepcopy(program)) == print_program(program)


def test_a_long_chain_of_views_is_handled_without_recursion() -> None:
    builder = Builder()
    value: Value = builder.input("x", "float32<2 x 8>")
    for number in range(DEEP):
        value = builder.emit(Reshape(value, (2, 8) if number % 2 else (8, 2)))
    builder.save(value, "y")
    function = builder.function()
    for pipeline in ((), pipelines.INSTRUCTIONS):
        program = compiler.build_program(function, backend_named("cpu"), pipeline=pipeline)
        check_placement(program)
        assert len(program.work) == 1
        assert print_program(parse_program(print_program(program))) == print_program(program)
        assert print_program(copy.deepcopy(program)) == print_program(program)
