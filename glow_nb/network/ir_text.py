"""The text of an IR of any level."""

from __future__ import annotations

from glow_nb.hlir.graph import Function
from glow_nb.hlir.module import Module
from glow_nb.hlir.print import print_function, print_module
from glow_nb.llir.print import print_program
from glow_nb.llir.program import Program


def ir_text(ir: Function | Module | Program) -> str:
    """Return the whole text of a graph, of several, or of a program."""
    match ir:
        case Program():
            return print_program(ir)
        case Module():
            return print_module(ir)
    return print_function(ir)
