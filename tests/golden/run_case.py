"""Running one golden case: parse, run its passes, compare. In process, and without numba."""

from __future__ import annotations

import re

import glow_nb.backends.cpu.unsigned_activations
import glow_nb.kernels.operators
import glow_nb.llir.instructions  # noqa: F401  (all register words of the language, or passes)
from glow_nb.base.errors import GlowError
from glow_nb.base.steps import Step, step_names
from glow_nb.compiler.driver import run_to, with_traits
from glow_nb.hlir.graph import Function
from glow_nb.hlir.module import Module
from glow_nb.hlir.parse import parse_module
from glow_nb.hlir.print import print_module
from glow_nb.kernels.cpu_kernels import CPU_KERNELS
from glow_nb.llir.parse import parse_program
from glow_nb.llir.print import print_program
from glow_nb.llir.program import Program
from tests.golden.filecheck import Case, MismatchError, read_case, verify_checks

IR = Module | Program

_PROGRAM = re.compile(r"(\s|//[^\n]*\n)*declare\b")


def run_case(text: str, path: str) -> None:
    """Run the case *text*; raise MismatchError if it does not do what its comments say.

    *path* is what errors in the IR call the text. What the case names is run by the compiler's own
    driver, so it may name the steps that are no passes, too
    (:data:`glow_nb.compiler.driver.STEPS`).
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


def _run_passes(ir: IR, passes: tuple[Step, ...]) -> IR:
    order = with_traits(passes, CPU_KERNELS.traits)
    if isinstance(ir, Program):
        return run_to(Program, ir, order)
    if "generate" in step_names(passes):
        return run_to(Program, _only_function(ir), order)
    return Module(tuple(run_to(Function, function, order) for function in ir.functions))


def _only_function(ir: Module) -> Function:
    if len(ir.functions) != 1:
        raise MismatchError("generate takes a graph of exactly one function")
    return ir.functions[0]


def _expect_same(output: str, expected: str) -> None:
    if output != expected:
        raise MismatchError(f"the text does not come back as written, but as:\n{output}")


def _without_comments(text: str) -> str:
    kept = [line for line in text.splitlines() if not line.lstrip().startswith("//")]
    return "\n".join(kept).strip("\n") + "\n"
