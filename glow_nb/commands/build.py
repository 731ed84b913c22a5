"""``glow-nb build``: a model as object code for C and C++."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

import glow_nb
from glow_nb.backends import Backend, BackendOptions
from glow_nb.base.quantities import byte_count, count_of
from glow_nb.bundle.processors import PLATFORMS
from glow_nb.commands.bindings import Bindings, binding_options
from glow_nb.commands.models import check_bindings_apply, hints
from glow_nb.commands.options import (
    ExampleCommand,
    backend_options,
    model_argument,
    without_option,
)
from glow_nb.commands.size_ranges import size_options

EXAMPLES = """\
glow-nb build resnet50.onnx --output resnet50
glow-nb build model.onnx --output bundle --name net --shared --threads 4
glow-nb build model.onnx --output bundle --cpu x86-64-v3 --cpu x86-64-v4
glow-nb build encoder.onnx --output bundle --size length=1..512 --hint length=128
glow-nb build model.onnx --output bundle --target aarch64-unknown-linux-gnu"""


@click.command(cls=ExampleCommand, epilog=EXAMPLES)
@model_argument
@click.option(
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    metavar="FOLDER",
    help="Where the bundle is written; an earlier bundle is replaced.",
)
@click.option("--name", metavar="NAME", help="Prefix of all names in C. [default: as MODEL]")
@click.option(
    "--target",
    metavar="TRIPLE",
    help=f"The machines that run it: {', '.join(PLATFORMS)}.  [default: this one]",
)
@click.option(
    "--cpu",
    "cpus",
    multiple=True,
    metavar="NAME",
    help="LLVM's name of the processor (znver4), or a level (x86-64-v3); repeat it for a bundle "
    "with code for each, which selects one at run time.",
)
@click.option(
    "--static/--shared",
    "is_static",
    default=True,
    help="An archive, or a shared library, which needs a C compiler. [default: static]",
)
@click.option(
    "--embed-constants", is_flag=True, help="Constants are part of the library, not a file to map."
)
@backend_options
@without_option
@binding_options
@size_options
def build(
    model: Path,
    output: Path,
    name: str | None,
    target: str | None,
    cpus: tuple[str, ...],
    is_static: bool,
    embed_constants: bool,
    backend: Backend | BackendOptions,
    threads: int | None,
    without: tuple[str, ...],
    bindings: Bindings,
    sizes: dict[str, Any],
) -> None:
    """Compile MODEL to object code for C and C++.

    The folder gets the code, a C header, the constants, a manifest, and an example in C with
    files to build it; its README.md says how they are used. Without --threads, one thread executes
    a run. Open sizes that --shape does not give are arguments of each run.
    """
    check_bindings_apply(model, bindings)
    with hints(model):
        glow_nb.build(
            str(model),
            output,
            name=name,
            target=target,
            cpu=cpus,
            threads=threads or 1,
            shared=not is_static,
            embed_constants=embed_constants,
            backend=backend,
            without=without,
            shapes=bindings.shapes,
            constants=bindings.constants(model),
            **sizes,
        )
    _tell(output)


for parameter in build.params:
    if parameter.name == "threads" and isinstance(parameter, click.Option):
        parameter.help = "Threads that can share a run.  [default: 1]"
    if parameter.name == "backend" and isinstance(parameter, click.Option):
        parameter.help = "What to compile for. The interpreter has no machine code: give cpu."


def _tell(folder: Path) -> None:
    """Say what is in the bundle."""
    from glow_nb.bundle.texts import MANIFEST  # with the code generator

    manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    cpus = ", ".join(cpu["name"] for cpu in manifest["cpus"])
    click.echo(f"bundle {folder}: {manifest['target']}, {cpus}")
    for function in manifest["functions"]:
        inputs = count_of(len(function["inputs"]), "input")
        outputs = count_of(len(function["outputs"]), "output")
        click.echo(f"function {function['symbol']}: {inputs}, {outputs}")
    parts = ("code", "constants", "tensors", "arena")
    known = {part: manifest[f"{part}_bytes"] for part in parts}
    texts = (f"{part} {byte_count(size)}" for part, size in known.items() if size is not None)
    click.echo(", ".join(texts))
    for size in manifest["sizes"]:
        click.echo(f"size {size['name']}: {size['least']} to {size['greatest']}")
    click.echo(f"for {count_of(manifest['threads'], 'thread')}")
