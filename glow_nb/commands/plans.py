"""``glow-nb plans``: how each layer can be computed, and how it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

import glow_nb
from glow_nb.backends import Backend, BackendOptions
from glow_nb.commands.bindings import Bindings, binding_options
from glow_nb.commands.json_text import json_text
from glow_nb.commands.models import load_one_program
from glow_nb.commands.options import ExampleCommand, backend_options, model_argument
from glow_nb.commands.size_ranges import size_options

EXAMPLES = """\
glow-nb plans model.onnx --shape batch=1
glow-nb plans model.onnx --layer conv1 --threads 1
glow-nb plans model.onnx --json | jq .conv1"""


@click.command(cls=ExampleCommand, epilog=EXAMPLES)
@model_argument
@backend_options
@binding_options
@size_options
@click.option("--layer", metavar="NAME", help="The name of one layer in the model.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def plans(
    model: Path,
    backend: Backend | BackendOptions,
    threads: int | None,
    bindings: Bindings,
    sizes: dict[str, Any],
    layer: str | None,
    as_json: bool,
) -> None:
    """Show how MODEL's products can be computed.

    These are convolutions and matrix products. A row is a candidate: an algorithm with the layout
    of its weights, and the estimated cycles on this machine (glow-nb machine). The one with the
    fewest cycles is chosen, with exceptions that the notes show: algorithms that round more or take
    more memory must be faster by a factor, and --constant-growth limits the memory.
    With --tune, the compiler measures some layers instead; this command measures nothing, and notes
    which layers these are.
    In Python, compile(plan={"conv1": "direct"}) forces an algorithm for a layer, "not winograd"
    forbids one, and the text of a plan in this table forces that plan.
    With --size or --hint, sizes stay open, and products are planned for an example.
    """
    found = glow_nb.plans(
        load_one_program(model, bindings, sizes), backend=backend, threads=threads
    )
    if as_json:
        names = list(found) if layer is None else [layer]
        click.echo(
            json_text(
                {
                    name: [
                        {
                            "plan": str(each.candidate.plan),
                            "cycles": each.candidate.cycles,
                            "is_chosen": each.is_chosen,
                            "is_valid": each.is_valid,
                            "is_measured": each.is_measured,
                            "note": each.note,
                        }
                        for each in found[name].weighed
                    ]
                    for name in names
                }
            )
        )
        return
    click.echo(str(found.table(layer)))
