"""No operator and no graph pass is without a golden case."""

from pathlib import Path

import pytest

import glow_nb.hlir.ops
import glow_nb.hlir.optimize
from glow_nb.hlir.graph import NODES
from glow_nb.hlir.parse import parse_module
from glow_nb.hlir.passes import GRAPH_PASSES
from tests.golden.filecheck import read_case

FOLDER = Path(__file__).parent
_REGISTERED = (glow_nb.hlir.ops, glow_nb.hlir.optimize)


def is_of_the_graph_level(thing: object) -> bool:
    return thing.__module__.startswith("glow_nb.hlir.")


@pytest.fixture(scope="module")
def written_opcodes() -> set[str]:
    texts = [path.read_text(encoding="utf-8") for path in (FOLDER / "hlir").glob("*.glow")]
    modules = [parse_module(text) for text in texts]
    return {node.opcode for m in modules for function in m.functions for node in function.nodes}


def test_every_operator_has_a_golden_round_trip(written_opcodes: set[str]) -> None:
    wanted = {opcode for opcode, node_class in NODES.items() if is_of_the_graph_level(node_class)}
    missing = sorted(wanted - written_opcodes)
    assert not missing, f"add them to a file of tests/golden/hlir: {missing}"


def test_every_graph_pass_has_a_golden_case() -> None:
    cases = [read_case(path.read_text(encoding="utf-8")) for path in FOLDER.rglob("*.glow")]
    run = {name for case in cases for name in case.passes}
    wanted = {name for name, run_pass in GRAPH_PASSES.passes.items() if is_of_the_graph_level(run_pass)}
    missing = sorted(wanted - run)
    assert not missing, f"add a file to tests/golden/passes for each of {missing}"
