"""Networks that are compiled for the arrays of ``--input``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from glow_nb.backends import Backend, BackendOptions
from glow_nb.base.errors import UnboundInput
from glow_nb.base.types import Array
from glow_nb.commands.bindings import Bindings
from glow_nb.commands.fed_inputs import read_inputs
from glow_nb.commands.models import (
    compile_fixed_model,
    compile_model,
    fixed_by_options,
    network_for,
)
from glow_nb.network.network import Network


def compile_with_inputs(
    model: Path,
    inputs: tuple[str, ...],
    bindings: Bindings,
    backend: Backend | BackendOptions,
    threads: int | None,
    without: tuple[str, ...],
    sizes: Mapping[str, Any],
) -> tuple[Network, dict[str, Array]]:
    """Return the network, and the arrays of *inputs*, whose shapes bind symbolic dimensions.

    Inputs whose numbers decide shapes are fixed: they are no inputs of the network any more.

    Raises:
        OptionError: Dimensions are left unbound, and nothing is said of *sizes* that stay open.
        GlowError: An array, an option or the model is wrong.
    """
    feeds = read_inputs(inputs, model, bindings, sizes)
    options: dict[str, Any] = {"without": without, "sizes": sizes}
    if not feeds:
        return compile_fixed_model(model, bindings, backend, threads, **options), feeds
    network = _compiled(partial(compile_model, model, bindings, backend, threads, **options), feeds)
    return network_for(network, feeds, sizes), feeds


def _compiled(compile: Callable[..., Network], feeds: dict[str, Array]) -> Network:
    """Return what *compile* makes once it has the *feeds* that decide shapes, which leave these."""
    fixed: dict[str, Array] = {}
    while True:
        try:
            return compile(constants=fixed)
        except UnboundInput as error:
            decisive = [name for name in error.names if name in feeds]
            if not decisive:
                raise fixed_by_options(error) from error
            fixed |= {name: feeds.pop(name) for name in decisive}
