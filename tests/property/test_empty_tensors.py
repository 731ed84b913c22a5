"""Tensors of size zero pass every step of the compiler, and keep the meaning of what has a size."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import glow_nb
from glow_nb.backends import backend_named
from glow_nb.compiler import pipelines
from glow_nb.compiler.program_passes import PROGRAM_PASSES
from glow_nb.hlir.evaluate import evaluate
from glow_nb.hlir.graph import Function
from glow_nb.hlir.lower import lower
from glow_nb.hlir.optimize import GRAPH_PASSES
from glow_nb.hlir.parse import parse_function
from glow_nb.llir.allocate import allocate
from glow_nb.llir.generate import generate
from glow_nb.llir.parse import parse_program
from glow_nb.llir.print import external_weights, print_program
from glow_nb.llir.program import Program
from glow_nb.network import compilation as compiler
from tests.passes_for_cpu import run_passes
from tests.property.empty_graphs import empty_functions
from tests.property.random_graphs import check_same, feeds_of
from tests.property.test_meaning import INSTRUCTION_PAIRS, check_function, check_program


def check_text_and_program(program: Program, function: Function) -> None:
    """Assert that *program* reads back and means what *function* means."""
    text = print_program(program)
    assert print_program(parse_program(text, constants=external_weights(program))) == text
    check_program(allocate(program), function)


@given(empty_functions(), st.sampled_from(sorted(GRAPH_PASSES.passes)))
def test_graph_passes_keep_the_meaning(function: Function, name: str) -> None:
    check_function(GRAPH_PASSES.run(function, (name,)), function)


@pytest.mark.parametrize("name", sorted(PROGRAM_PASSES.passes))
@given(empty_functions())
def test_each_instruction_pass_keeps_the_meaning(name: str, function: Function) -> None:
    check_text_and_program(run_passes(generate(function), (name,)), function)


@given(empty_functions(), st.sampled_from(INSTRUCTION_PAIRS))
def test_each_pair_of_adjacent_instruction_passes_keeps_the_meaning(
    function: Function, pair: tuple[str, str]
) -> None:
    check_text_and_program(run_passes(generate(lower(function)), pair), function)


@given(empty_functions())
def test_the_instruction_pipeline_alone_keeps_the_meaning(function: Function) -> None:
    check_text_and_program(run_passes(generate(function), pipelines.INSTRUCTIONS), function)


@given(empty_functions())
def test_the_cpu_program_keeps_the_meaning(function: Function) -> None:
    cpu = backend_named("cpu")
    lowered = compiler.lower_for(function, cpu)
    check_text_and_program(compiler.build_program(lowered, cpu), function)


@pytest.mark.jit
@given(empty_functions(), st.integers(1, 3))
@settings(max_examples=max(1, settings().max_examples // 2))
def test_the_cpu_backend_keeps_the_meaning(function: Function, threads: int) -> None:
    feeds = feeds_of(function)
    check_same(glow_nb.compile(function, threads=threads).run(feeds), evaluate(function, feeds))


FOUND = (  # by random graphs, once
    """
    func @main(%x : float32<0>) -> (%y : float32<0>) {
      %concat = concat([%x]) {axis = 0} : float32<0>
      %sum = reduce_sum(%concat) {axes = [], keep_dims = false} : float32<0>
      %y_save = save(%sum, %y)
    }
    """,
    """
    constant %w : float32<0 x 1 x 0> = external
    constant %b : float32<0> = external
    func @main(%x : float32<0 x 0 x 0>) -> (%y : float32<0 x 1 x 0>) {
      %neg = neg(%x) : float32<0 x 0 x 0>
      %conv = convolution(%neg, %w, %b) {
        kernel = [1], stride = [1], pads = [0, 1], dilation = [1], group = 1} : float32<0 x 1 x 0>
      %y_save = save(%conv, %y)
    }
    """,
)  # fmt: skip


@pytest.mark.parametrize("text", FOUND)
def test_graphs_that_failed_once_compile(text: str) -> None:
    empty = {"w": np.zeros((0, 1, 0), np.float32), "b": np.zeros(0, np.float32)}
    constants = {name: array for name, array in empty.items() if f"%{name} :" in text}
    function = parse_function(text, constants=constants)
    check_program(run_passes(generate(function), pipelines.INSTRUCTIONS), function)
    check_function(compiler.lower_for(function, backend_named("cpu")), function)
