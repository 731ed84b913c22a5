"""IR as commands read and write it: a model, IR text of either level, or standard input."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from glow_nb.base.errors import GlowError
from glow_nb.commands.bindings import Bindings
from glow_nb.commands.models import load_model
from glow_nb.hlir.graph import Function
from glow_nb.llir.program import Program
from glow_nb.network.files import load_text, parse_text, save_text
from glow_nb.network.ir_text import ir_text
from glow_nb.network.open_function import OpenFunction
from glow_nb.network.text_files import SUFFIX
from glow_nb.system.replaced_files import replace_file


def read_ir(file: Path, bindings: Bindings) -> Function | Program:
    """Return what is in *file*: an ONNX model, or IR text; a dash is standard input."""
    if file.suffix == ".onnx":
        return load_model(file, bindings)
    ir = parse_text(_standard_input(), "<stdin>") if str(file) == "-" else load_text(file)
    bindings.require_open(file, ir)
    if isinstance(ir, Function) and bindings.shapes:
        return OpenFunction(ir).function(bindings.shapes)
    return ir


def _standard_input() -> str:
    if sys.stdin is None:
        raise GlowError("<stdin>: it is closed; send IR text to it, or name a file")
    try:
        return sys.stdin.read()
    except UnicodeDecodeError as error:
        raise GlowError(f"<stdin>: not text: {error}") from error


def write_ir(ir: Function | Program, output: Path | None) -> None:
    """Write the text of *ir* to *output* with its constants beside it, or print it alone."""
    if output is None:
        write_text(ir_text(ir), None)
        return
    check_ir_output(output)
    save_text(ir, output)
    click.echo(f"wrote {output}", err=True)


def check_ir_output(output: Path | None) -> None:
    """Raise BadParameter if *output* is a file that is not named as one of IR text."""
    if output is not None and output.suffix != SUFFIX:
        raise click.BadParameter(
            f"{output} is not named FILE{SUFFIX}, by which IR text is known; give "
            f"{output.with_name(output.name + SUFFIX)}",
            param_hint="'--output'",
        )


def write_text(text: str, output: Path | None) -> None:
    """Write *text* to *output*, or print it."""
    if output is None:
        click.echo(text, nl=not text.endswith("\n"))
        return
    replace_file(output, lambda place: place.write_text(text, encoding="utf-8"))
    click.echo(f"wrote {output}", err=True)
