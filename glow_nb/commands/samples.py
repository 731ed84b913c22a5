"""The inputs of the commands of quantization: a model and samples for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click

from glow_nb.base.errors import OptionError
from glow_nb.base.schema import listed
from glow_nb.base.types import Array
from glow_nb.commands.bindings import NOTHING, Bindings
from glow_nb.commands.models import open_model
from glow_nb.hlir.graph import Function
from glow_nb.network.source import Shapes as FeedShapes
from glow_nb.network.source import Trained, as_source
from glow_nb.quant import equalize


def samples_option(*, required: bool, purpose: str = "") -> Callable[[Any], Any]:
    """Return the option ``--samples``, whose help says the *purpose* of samples."""
    return click.option(
        "--samples",
        required=required,
        metavar="FILE.npz",
        help=f"{purpose}One array for each input under its name, samples along the first axis; "
        "other arrays are ignored.",
    )


def calibrated_model(model: Path, bindings: Bindings) -> Trained:
    """Return the file *model*, or its graph if *bindings* bind something in it."""
    if bindings == NOTHING:
        return model
    return open_model(model, bindings)


equalize_option = click.option(
    "--equalize",
    "equalizes",
    is_flag=True,
    help="Scale channels between neighbouring layers first, so that weights fit integers better. "
    "Ranges are of the equalized network: give it to 'calibrate' and to 'quantize'.",
)


def equalized(source: Trained, shapes: FeedShapes) -> Function:
    """Return the network with equalized weights for inputs of *shapes*, and print what it gained.

    It is the same each time, so that ranges of it can be used later.
    """
    found = equalize(as_source(source).function(shapes))
    click.echo(str(found))
    return found.function


def samples_for(source: Trained, arrays: Mapping[str, Array], path: str) -> dict[str, Array]:
    """Return those of *arrays*, read from *path*, that are for inputs of *source*."""
    names = as_source(source).inputs
    missing = [name for name in names if name not in arrays]
    if missing:
        raise OptionError(
            f"data file {path}: it holds {listed(arrays)}, but no array for the inputs {missing}"
        )
    return {name: arrays[name] for name in names}
