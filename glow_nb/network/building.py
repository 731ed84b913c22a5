"""``net.build``: a compiled network as object code for C and C++."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from glow_nb.base.arguments import as_path, truth
from glow_nb.base.errors import OptionError, UnsupportedError
from glow_nb.base.text import format_name
from glow_nb.bundle.identifiers import checked_name, identifier_of
from glow_nb.bundle.plan import Variant, plan_bundle
from glow_nb.bundle.processors import platform_like
from glow_nb.bundle.texts import Form
from glow_nb.bundle.writing import write_bundle
from glow_nb.codegen.native_program import NativeProgram
from glow_nb.network.saved.key import versions
from glow_nb.system.state_store import StateStore

NAMELESS = "network"
"""What a bundle is called if its model has no name that C takes."""


class Buildable(Protocol):
    """What a :class:`glow_nb.Network` tells of itself to be built."""

    @property
    def state(self) -> StateStore:
        """The states by name."""

    @property
    def functions(self) -> Mapping[str, Any]:
        """The functions by name."""


def build_network(
    network: Buildable,
    folder: str | os.PathLike[str],
    *,
    name: str | None = None,
    shared: bool = False,
    embed_constants: bool = False,
) -> None:
    """Do what :meth:`glow_nb.Network.build` says."""
    place, form = as_path(folder), form_of(shared=shared, embed_constants=embed_constants)
    chosen = name_like(next(iter(network.functions))) if name is None else checked_name(name)
    build_variants(place, chosen, [network], form, {})


def form_of(*, shared: bool, embed_constants: bool) -> Form:
    """Return how a bundle is given; raise OptionError if a switch is no bool."""
    return Form(truth("shared", shared), truth("embed_constants", embed_constants))


def name_like(text: object) -> str:
    """Return a name of a bundle that reminds of *text*."""
    like = identifier_of(text) if isinstance(text, str) else ""
    try:
        return checked_name(like)
    except OptionError:
        return NAMELESS


def build_variants(
    folder: Path,
    name: str,
    networks: Sequence[Buildable],
    form: Form,
    made_from: Mapping[str, str],
) -> None:
    """Write the bundle of *networks*, one for each processor, with the values of their state."""
    variants = [Variant(one) for one in map(_natives, networks)]
    platform_like(variants[0].target)
    first = networks[0]
    with first.state.for_reading() as values:
        bundle = plan_bundle(name, list(first.functions), variants, values)
        origin = {**made_from, "functions": ", ".join(first.functions), **versions()}
        write_bundle(folder, bundle, form, made_from=origin)


def _natives(network: Buildable) -> tuple[NativeProgram, ...]:
    """Return the programs of all functions of *network*; raise an error if one has none."""
    natives = []
    for name, function in network.functions.items():
        native = getattr(function.executable, "native", None)
        if not isinstance(native, NativeProgram):
            raise UnsupportedError(
                f"network {format_name(name)}: {type(function.executable).__name__} is no machine "
                'code that a bundle could have; compile for backend="cpu"'
            )
        natives.append(native)
    return tuple(natives)
