"""``glow-nb export``: a graph as an ONNX model."""

from __future__ import annotations

from pathlib import Path

import click

import glow_nb
from glow_nb.backends import backend_named
from glow_nb.base.errors import OptionError
from glow_nb.base.quantities import count_of
from glow_nb.commands.bindings import Bindings, binding_options
from glow_nb.commands.ir_files import read_ir
from glow_nb.commands.options import ExampleCommand
from glow_nb.commands.orders import passes_option, read_order
from glow_nb.commands.outputs import OutputPath
from glow_nb.compiler.driver import run
from glow_nb.hlir.graph import Function

EXAMPLES = """\
glow-nb export net.glow --output net.onnx
glow-nb export model.onnx --passes INFERENCE --output simpler.onnx
glow-nb export model.onnx --shape batch=8 --opset 21 --output of_eight.onnx"""


@click.command(cls=ExampleCommand, epilog=EXAMPLES)
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True))
@click.option(
    "--output",
    type=OutputPath(),
    required=True,
    metavar="FILE.onnx",
    help="The model to write. Constants of more than 2 GiB go beside it, to FILE.onnx.data.",
)
@passes_option(required=False)
@click.option(
    "--opset",
    type=int,
    metavar="N",
    help="The operator set.  [default: the oldest one from 20 on that can express the graph]",
)
@binding_options
def export(
    file: Path,
    output: Path,
    passes: str | None,
    opset: int | None,
    bindings: Bindings,
) -> None:
    """Write the graph in FILE as an ONNX model.

    FILE is IR text of a graph or an ONNX model; a dash reads IR text from standard input. --passes
    runs passes on the graph before, as 'glow-nb opt' does: INFERENCE is the default pipeline.
    """
    ir = read_ir(file, bindings)
    if passes is not None:
        ir = run(ir, read_order(passes, backend_named("cpu")))
    if not isinstance(ir, Function):
        raise OptionError(f"{ir!r}: ONNX has models of graphs only; give the graph of this program")
    model = glow_nb.export_onnx(ir, output, opset=opset)
    graph, version = model.graph, model.opset_import[0].version
    counts = count_of(len(graph.node), "node"), count_of(len(graph.initializer), "constant")
    click.echo(f"wrote {output}: opset {version}, {', '.join(counts)}", err=True)
