"""What nodes and instructions stand for, and bisecting, on random graphs."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from glow_nb import bisection
from glow_nb.backends import backend_named
from glow_nb.base.schema import operands_of
from glow_nb.hlir.graph import Function, producer_of
from glow_nb.hlir.parse import parse_function
from glow_nb.hlir.print import external_constants, print_function
from glow_nb.hlir.save import Save
from glow_nb.llir.parse import parse_program
from glow_nb.llir.print import external_weights, print_program
from glow_nb.network import compilation as compiler
from tests.property.random_graphs import feeds_of, functions


@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
@given(functions())
def test_only_imported_nodes_are_stood_for(backend: str, function: Function) -> None:
    imported = {node.name for node in function}
    target = backend_named(backend)
    lowered = compiler.lower_for(function, target)
    for node in lowered:
        names = lowered.origins_of(node)
        assert names
        assert len(set(names)) == len(names)
        assert set(names) <= imported
    program = compiler.build_program(lowered, target)
    for instruction in program.work:
        assert set(instruction.imported_names) <= imported


def made_from(function: Function) -> dict[str, set[str]]:
    """Return the names of the nodes that each node depends on, itself included."""
    found: dict[str, set[str]] = {}
    for node in function:
        producers = (producer_of(operand) for operand in operands_of(node))
        above = (found[producer.name] for producer in producers if producer is not None)
        found[node.name] = {node.name}.union(*above)
    return found


@given(functions())
def test_what_a_node_stands_for_lies_above_an_output_that_needs_it(function: Function) -> None:
    lowered = compiler.lower_for(function, backend_named("interpreter"))
    before, after = made_from(function), made_from(lowered)
    saves = {node.output: node.name for node in function if isinstance(node, Save)}
    for save in (node for node in lowered if isinstance(node, Save)):
        above = before[saves[save.output]]
        for name in after[save.name] - {save.name}:
            assert above.intersection(lowered.origins_of(lowered[name]))


@given(functions())
def test_text_keeps_what_nodes_stand_for(function: Function) -> None:
    cpu = backend_named("cpu")
    lowered = compiler.lower_for(function, cpu)
    text = print_function(lowered)
    again = parse_function(text, constants=external_constants(lowered))
    assert again.origins == lowered.origins
    program = compiler.build_program(lowered, cpu)
    read = parse_program(print_program(program), constants=external_weights(program))
    assert [i.imported_names for i in read.work] == [i.imported_names for i in program.work]


@settings(max_examples=25)
@given(functions())
def test_a_sound_compiler_has_no_step_at_fault(function: Function) -> None:
    found = bisection.bisect(function, feeds_of(function), backend="interpreter", tolerance=1e-3)
    assert found.first_bad is None, str(found)
