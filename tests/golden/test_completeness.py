"""No operator, instruction or pass is without a golden case."""

from collections.abc import Iterable
from pathlib import Path

import glow_nb.fuse.stack_instructions
import glow_nb.hlir.ops
import glow_nb.hlir.optimize
import glow_nb.kernels.operators
import glow_nb.llir.instructions
import glow_nb.llir.optimize
from glow_nb.base.steps import step_names
from glow_nb.compiler.program_passes import PROGRAM_PASSES
from glow_nb.hlir.graph import NODES
from glow_nb.hlir.parse import parse_module
from glow_nb.hlir.passes import GRAPH_PASSES
from glow_nb.llir.instructions.derived import known_instructions
from glow_nb.llir.parse import parse_program
from tests.golden.filecheck import read_case

FOLDER = Path(__file__).parent
_REGISTERED = (
    glow_nb.fuse.stack_instructions,
    glow_nb.hlir.ops,
    glow_nb.hlir.optimize,
    glow_nb.kernels.operators,
    glow_nb.llir.instructions,
    glow_nb.llir.optimize,
)


def ours(registered: Iterable[tuple[str, object]]) -> set[str]:
    """Return the names of what the IR levels define, without what backends and tests add."""
    levels = ("glow_nb.hlir.", "glow_nb.llir.", "glow_nb.fuse.")
    return {name for name, thing in registered if thing.__module__.startswith(levels)}


def texts(folder: str) -> list[str]:
    return [path.read_text(encoding="utf-8") for path in sorted((FOLDER / folder).glob("*.glow"))]


def test_every_operator_has_a_golden_round_trip() -> None:
    functions = [f for text in texts("hlir") for f in parse_module(text).functions]
    written = {node.opcode for function in functions for node in function.nodes}
    missing = sorted(ours(NODES.items()) - written)
    assert not missing, f"add them to a file of tests/golden/hlir: {missing}"


def test_every_instruction_has_a_golden_round_trip() -> None:
    programs = [parse_program(text) for text in texts("llir")]
    written = {instruction.opcode for program in programs for instruction in program.instructions}
    missing = sorted(ours(known_instructions().items()) - written)
    assert not missing, f"add them to a file of tests/golden/llir: {missing}"


def test_every_pass_has_a_golden_case() -> None:
    run = {name for text in texts("passes") for name in step_names(read_case(text).passes)}
    wanted = ours(GRAPH_PASSES.passes.items()) | ours(PROGRAM_PASSES.passes.items())
    missing = sorted(wanted - run)
    assert not missing, f"add a file to tests/golden/passes for each of {missing}"
