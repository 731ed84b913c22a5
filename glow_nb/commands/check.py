"""``glow-nb check``: is this a valid model."""

from __future__ import annotations

from pathlib import Path

import click

from glow_nb.base.quantities import count_of
from glow_nb.base.text import format_name
from glow_nb.commands.bindings import Bindings, binding_options
from glow_nb.commands.ir_files import read_ir
from glow_nb.commands.options import ExampleCommand
from glow_nb.hlir.graph import Function
from glow_nb.hlir.verify import verify
from glow_nb.llir.check_placement import check_placement
from glow_nb.llir.program import Program

EXAMPLES = """\
glow-nb check program.glow
glow-nb check model.onnx --shape batch=8
glow-nb dump model.onnx --level llir | glow-nb check -"""


@click.command(cls=ExampleCommand, epilog=EXAMPLES)
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True))
@binding_options
def check(file: Path, bindings: Bindings) -> None:
    """Parse and verify FILE, IR text or an ONNX model.

    A dash reads IR text from standard input. The command prints what FILE holds and exits with 0,
    or prints where it is wrong (file:line:column) and exits with 1. For an allocated program, it
    also proves the placement: no two buffers that are needed at the same time overlap.
    """
    ir = read_ir(file, bindings)
    if isinstance(ir, Function):
        verify(ir)
        click.echo(f"{file}: {_describe_function(ir)}")
        return
    if ir.arena is not None:
        check_placement(ir)
    click.echo(f"{file}: {_describe_program(ir)}")


def _describe_function(function: Function) -> str:
    constants = function.constants
    counts = [
        count_of(len(function.nodes), "node"),
        count_of(len(constants), "constant"),
        *_absent(sum(constant.payload is None for constant in constants)),
        count_of(len(function.inputs), "input"),
        count_of(len(function.outputs), "output"),
        *_states(len(function.state)),
    ]
    return f"graph @{format_name(function.name)}, {', '.join(counts)}"


def _describe_program(program: Program) -> str:
    weights = program.weights
    counts = [
        count_of(len(program.work), "instruction"),
        count_of(len(program.activations), "activation"),
        count_of(len(weights), "weight"),
        *_absent(sum(weight.payload is None for weight in weights)),
        count_of(len(program.inputs), "input"),
        count_of(len(program.outputs), "output"),
        *_states(len(program.state)),
    ]
    arena = program.arena
    place = f"arena of {arena.size_bytes} bytes is sound" if arena else "not allocated"
    return f"program @{format_name(program.name)}, {', '.join(counts)}, {place}"


def _absent(count: int) -> list[str]:
    return [f"{count} of them without numbers"] if count else []


def _states(count: int) -> list[str]:
    return [count_of(count, "state")] if count else []
