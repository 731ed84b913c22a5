"""Every step of the compiler keeps the meaning of random graphs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import glow_nb
from glow_nb.backends import backend_named
from glow_nb.backends.interpreter import InterpretedProgram
from glow_nb.base.steps import Repeat
from glow_nb.base.types import Array
from glow_nb.compiler import pipelines
from glow_nb.compiler.program_passes import PROGRAM_PASSES
from glow_nb.hlir.evaluate import evaluate
from glow_nb.hlir.graph import Function
from glow_nb.hlir.lower import lower
from glow_nb.hlir.optimize import GRAPH_PASSES
from glow_nb.hlir.parse import parse_function
from glow_nb.hlir.print import external_constants, print_function
from glow_nb.hlir.schedule import peak_bytes, schedule
from glow_nb.hlir.verify import verify
from glow_nb.llir.allocate import allocate
from glow_nb.llir.generate import generate
from glow_nb.llir.parse import parse_program
from glow_nb.llir.print import external_weights, print_program
from glow_nb.llir.program import Program
from glow_nb.llir.verify import verify as verify_program
from glow_nb.network import compilation as compiler
from glow_nb.system.state_store import StateStore
from tests.passes_for_cpu import run_passes
from tests.property.random_graphs import check_same, feeds_of, functions

Feeds = Mapping[str, Array]
Run = Callable[[dict[str, Array]], dict[str, Array]]

REPEATED = next(entry for entry in pipelines.INFERENCE if isinstance(entry, Repeat)).steps
PAIRS = [*pairwise(REPEATED), (REPEATED[-1], REPEATED[0])]
"""The graph passes that run one after the other, round and round."""
INSTRUCTION_PAIRS = [*pairwise(pipelines.INSTRUCTIONS)]
BACKEND_PASSES = ("select_packed_operators",)


RUNS = 2
"""Runs in a row of a function that has states."""


def check_runs(run: Run, state: Mapping[str, Array], original: Function) -> None:
    """Assert that runs in a row give the outputs that *original* means, and leave its states."""
    expected: dict[str, Array] = {s.name: s.array for s in original.state}
    for seed in range(RUNS if original.state else 1):
        feeds = feeds_of(original, seed)
        check_same(run(feeds), evaluate(original, feeds, expected))
        check_same({name: state[name] for name in expected}, expected)


def check_function(function: Function, original: Function) -> None:
    """Assert that *function* verifies and means the same as *original*."""
    verify(function)
    state = {s.name: s.array for s in original.state}
    check_runs(lambda feeds: evaluate(function, feeds, state), state, original)


def check_program(program: Program, original: Function) -> None:
    """Assert that *program* means the same as *original* in the interpreter."""
    verify_program(program)
    executable = InterpretedProgram(program if program.arena else allocate(program))
    state = StateStore(original.state)

    def run(feeds: Feeds) -> dict[str, Array]:
        results = executable.run_on(state, [feeds[p.name] for p in original.inputs])
        return dict(zip((p.name for p in original.outputs), results, strict=True))

    check_runs(run, state, original)


def check_network(net: glow_nb.Network, original: Function) -> None:
    """Assert that *net*, which was not run, means the same as *original*."""
    check_runs(net.run, net.state, original)


@pytest.mark.parametrize("name", sorted(GRAPH_PASSES.passes))
@given(functions())
@settings(max_examples=settings().max_examples // 4)
def test_each_graph_pass_keeps_the_meaning(name: str, function: Function) -> None:
    check_function(GRAPH_PASSES.run(function, (name,)), function)


@given(functions(), st.sampled_from(PAIRS))
def test_each_pair_of_adjacent_passes_keeps_the_meaning(
    function: Function, pair: tuple[str, str]
) -> None:
    check_function(GRAPH_PASSES.run(function, pair), function)


@given(functions(max_nodes=16))
def test_the_pipeline_keeps_the_meaning(function: Function) -> None:
    check_function(compiler.optimize(function), function)


@given(functions())
def test_optimizing_twice_changes_nothing(function: Function) -> None:
    once = compiler.optimize(function)
    assert compiler.optimize(once) is once


@given(functions())
def test_lowering_keeps_the_meaning(function: Function) -> None:
    check_function(lower(function), function)


@given(functions(max_nodes=16))
def test_the_cpu_graph_keeps_the_meaning(function: Function) -> None:
    check_function(compiler.lower_for(function, backend_named("cpu")), function)


@given(functions(max_nodes=16))
def test_schedule_keeps_the_meaning_and_never_raises_the_peak(function: Function) -> None:
    scheduled = schedule(function)
    check_function(scheduled, function)
    if not function.state:  # otherwise memory is saved by writing over old values
        assert peak_bytes(scheduled) <= peak_bytes(function)


@given(functions())
def test_graph_text_reads_back_to_the_same_text(function: Function) -> None:
    text = print_function(function)
    again = parse_function(text, constants=external_constants(function))
    assert print_function(again) == text
    check_function(again, function)


@given(functions(max_nodes=12))
def test_instructions_keep_the_meaning(function: Function) -> None:
    program = allocate(generate(function))
    check_program(program, function)


@pytest.mark.parametrize("name", sorted(PROGRAM_PASSES.passes))
@given(functions())
@settings(max_examples=settings().max_examples // 2)
def test_each_instruction_pass_keeps_the_meaning(name: str, function: Function) -> None:
    program = allocate(run_passes(generate(function), (name,)))
    check_program(program, function)


@given(functions(), st.sampled_from(INSTRUCTION_PAIRS))
def test_each_pair_of_adjacent_instruction_passes_keeps_the_meaning(
    function: Function, pair: tuple[str, str]
) -> None:
    program = allocate(run_passes(generate(lower(function)), pair))
    check_program(program, function)


@given(functions(max_nodes=16))
def test_the_instruction_pipeline_keeps_the_meaning(function: Function) -> None:
    cpu = backend_named("cpu")
    program = compiler.build_program(compiler.lower_for(function, cpu), cpu)
    check_program(program, function)


@given(functions())
def test_program_text_reads_back_to_the_same_text(function: Function) -> None:
    program = compiler.build_program(lower(function), backend_named("interpreter"))
    text = print_program(program)
    again = parse_program(text, constants=external_weights(program))
    assert print_program(again) == text
    check_program(again, function)


@given(functions(max_nodes=14))
def test_the_interpreter_keeps_the_meaning(function: Function) -> None:
    net = glow_nb.compile(function, backend="interpreter")
    check_network(net, function)


@pytest.mark.jit
@given(functions(max_nodes=8), st.integers(1, 3))
@settings(max_examples=settings().max_examples // 8)
def test_the_cpu_backend_keeps_the_meaning(function: Function, threads: int) -> None:
    net = glow_nb.compile(function, threads=threads)
    check_network(net, function)


def test_pipelines_name_known_passes() -> None:
    GRAPH_PASSES.check(pipelines.INFERENCE)
    PROGRAM_PASSES.check(pipelines.INSTRUCTIONS)
