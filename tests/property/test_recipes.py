"""Constants whose numbers are made when they are needed: they are those that folding gives."""

from __future__ import annotations

from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import glow_nb
from glow_nb.backends import backend_named
from glow_nb.hlir import recipe
from glow_nb.hlir.evaluate import evaluate
from glow_nb.hlir.graph import Function
from glow_nb.network import compilation as compiler
from tests.property.random_graphs import check_same, feeds_of, functions
from tests.property.test_meaning import check_function

ALL_LATE = patch.object(recipe, "LARGE_BYTES", 0)


@given(functions(max_nodes=16))
def test_the_pipeline_keeps_the_meaning(function: Function) -> None:
    with ALL_LATE:
        check_function(compiler.optimize(function), function)


@given(functions(max_nodes=16))
def test_the_cpu_graph_keeps_the_meaning(function: Function) -> None:
    with ALL_LATE:
        check_function(compiler.lower_for(function, backend_named("cpu")), function)


@pytest.mark.jit
@given(functions(max_nodes=8), st.integers(1, 3))
@settings(max_examples=max(1, settings().max_examples // 4))
def test_the_cpu_backend_keeps_the_meaning(function: Function, threads: int) -> None:
    with ALL_LATE:
        net = glow_nb.compile(function, threads=threads)
    feeds = feeds_of(function)
    check_same(net.run(feeds), evaluate(function, feeds))
