"""``glow-nb opt``: passes by name, run on IR of either level."""

from __future__ import annotations

from pathlib import Path

import click

from glow_nb.backends import Backend, BackendOptions, backend_named
from glow_nb.base.steps import Entries, Entry, Step
from glow_nb.commands.bindings import Bindings, binding_options
from glow_nb.commands.ir_files import check_ir_output, read_ir, write_ir
from glow_nb.commands.options import (
    ExampleCommand,
    backend_options,
)
from glow_nb.commands.orders import passes_option, read_order
from glow_nb.commands.outputs import OutputPath
from glow_nb.compiler.driver import STEPS, run
from glow_nb.llir.check_placement import check_placement
from glow_nb.llir.program import Program
from glow_nb.network.compiling import as_threads

EXAMPLES = """\
glow-nb opt program.glow --passes peephole,stack_instructions
glow-nb opt program.glow --passes 'peephole, allocate{alignment = 128}' --verify
glow-nb opt loss.glow --passes 'differentiate{wrt = ["w"]}, INFERENCE'
glow-nb opt model.onnx --passes INFERENCE,lower,INFERENCE --output lowered.glow
glow-nb dump model.onnx --after lower | glow-nb opt - --passes fold_constants"""


@click.command(cls=ExampleCommand, epilog=EXAMPLES)
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True))
@passes_option(required=True)
@click.option(
    "--verify",
    is_flag=True,
    help="Verify FILE as well, the result of every step, and the placement at the end. The result "
    "of a pass is verified in any case.",
)
@click.option(
    "--output",
    type=OutputPath(in_place=True),
    metavar="FILE.glow",
    help="Write to FILE.glow instead of standard output; large constants go beside it, to "
    "FILE.npz.",
)
@backend_options
@binding_options
def opt(
    file: Path,
    passes: str,
    verify: bool,
    output: Path | None,
    backend: Backend | BackendOptions,
    threads: int | None,
    bindings: Bindings,
) -> None:
    """Run passes on FILE and print the IR that comes out.

    FILE is IR text of either level or an ONNX model; a dash reads IR text from standard input.

    NAME is a pass over graphs or over instructions, or a step of the compiler: verify, lower,
    schedule and allocate stay on a level, generate makes a program of a graph, check_placement
    proves that no two live buffers overlap, and differentiate{wrt = ["w"], output = "loss"} adds
    the gradients of an output. INFERENCE and INSTRUCTIONS are the default pipelines, TRAINING is
    that of a training step. A step that depends on the backend, such as lower, runs as for
    --backend. A pass that changes a program removes its placement in memory; allocate makes a new
    one.
    """
    check_ir_output(output)
    chosen = backend_named(backend, threads=as_threads(threads))
    order = read_order(passes, chosen)
    ir = read_ir(file, bindings)
    made = run(ir, _with_verification(order) if verify else order)
    if verify and isinstance(made, Program) and made.arena is not None:
        check_placement(made)
    write_ir(made, output)


def _with_verification(order: Entries) -> Entries:
    """Return *order* with the IR verified first, and after each step that does not do it itself."""
    verified: list[Entry] = ["verify"]
    for entry in order:
        verified.append(entry)
        if isinstance(entry, Step) and entry.name in STEPS:
            verified.append("verify")
    return tuple(verified)
