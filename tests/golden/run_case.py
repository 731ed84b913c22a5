"""Running one golden case: parse, run its passes, compare. In process, and without numba."""

from __future__ import annotations

import re
from collections.abc import Callable

import glow_nb.fuse.stack_instructions
import glow_nb.hlir.optimize
import glow_nb.llir.instructions
import glow_nb.llir.optimize  # noqa: F401  (registers the passes)
from glow_nb.errors import GlowError
from glow_nb.hlir.graph import Function, Module
from glow_nb.hlir.lower import lower
from glow_nb.hlir.parse import parse_module
from glow_nb.hlir.passes import GRAPH_PASSES
from glow_nb.hlir.print import print_module
from glow_nb.hlir.schedule import schedule
from glow_nb.llir.allocate import allocate
from glow_nb.llir.generate import generate
from glow_nb.llir.parse import parse_program
from glow_nb.llir.print import print_program
from glow_nb.llir.program import Program
from glow_nb.program_passes import PROGRAM_PASSES
from tests.golden.filecheck import Case, MismatchError, read_case, verify_checks

IR = Module | Program

_GRAPH_STEPS: dict[str, Callable[[Function], Function]] = {"lower": lower, "schedule": schedule}
_PROGRAM = re.compile(r"(\s|//[^\n]*\n)*declare\b")


def run_case(text: str, path: str) -> None:
    """Run the case *text*; raise MismatchError if it does not do what its comments say.

    *path* is what errors in the IR call the text. The steps of the compiler that are no passes can
    be named too: ``lower`` and ``schedule``, ``generate`` from the graph to the program, and
    ``allocate``.
    """
    case = read_case(text)
    if case.error is not None:
        _expect_error(case, case.error, text, path)
        return
    output = _print(_run_passes(_parse(text, path), case.passes))
    if _print(_parse(output, "output")) != output:
        raise MismatchError(f"the output does not print the same once it is parsed:\n{output}")
    verify_checks(output, case.checks)
    if not case.checks:
        _expect_same(output, _without_comments(text))


def _expect_error(case: Case, error: str, text: str, path: str) -> None:
    position = re.match(r"(\d+:\d+: )?", error)
    assert position is not None
    place = f"{path}:{position[0]}" if position[0] else ""
    message = error[position.end() :]
    try:
        _run_passes(_parse(text, path), case.passes)
    except GlowError as caught:
        if place in str(caught) and message in str(caught):
            return
        raise MismatchError(f"expected {place}{message}\nbut the error is {caught}") from caught
    raise MismatchError(f"expected {place}{message}\nbut nothing failed")


def _parse(text: str, path: str) -> IR:
    return parse_program(text, path) if _PROGRAM.match(text) else parse_module(text, path)


def _print(ir: IR) -> str:
    return print_program(ir) if isinstance(ir, Program) else print_module(ir)


def _run_passes(ir: IR, names: tuple[str, ...]) -> IR:
    for name in names:
        if name == "generate":
            ir = generate(_only_function(ir))
        elif isinstance(ir, Program):
            ir = allocate(ir) if name == "allocate" else PROGRAM_PASSES.run(ir, (name,))
        else:
            ir = Module(tuple(_run_graph_pass(function, name) for function in ir.functions))
    return ir


def _run_graph_pass(function: Function, name: str) -> Function:
    step = _GRAPH_STEPS.get(name)
    return step(function) if step else GRAPH_PASSES.run(function, (name,))


def _only_function(ir: IR) -> Function:
    if isinstance(ir, Program) or len(ir.functions) != 1:
        raise MismatchError("generate takes a graph of exactly one function")
    return ir.functions[0]


def _expect_same(output: str, expected: str) -> None:
    if output != expected:
        raise MismatchError(f"the text does not come back as written, but as:\n{output}")


def _without_comments(text: str) -> str:
    kept = [line for line in text.splitlines() if not line.lstrip().startswith("//")]
    return "\n".join(kept).strip("\n") + "\n"
