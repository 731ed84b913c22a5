"""``net.build``: a compiled network as object code for C and C++."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from glow_nb.backends import BackendLike, backend_named
from glow_nb.base.arguments import MOST_THREADS, as_path, described, truth, whole_number
from glow_nb.base.errors import OptionError, UnsupportedError
from glow_nb.base.text import format_name
from glow_nb.bundle.identifiers import checked_name, identifier_of
from glow_nb.bundle.plan import Variant, plan_bundle
from glow_nb.bundle.processors import platform_like, targets_of
from glow_nb.bundle.texts import Form
from glow_nb.bundle.writing import check_place, write_bundle
from glow_nb.codegen.native_program import NativeProgram
from glow_nb.kernels.target import Target
from glow_nb.network.saved.key import versions
from glow_nb.system.state_store import StateStore

NAMELESS = "network"
"""What a bundle is called if its model has no name that C takes."""


class Buildable(Protocol):
    """The interface of a :class:`glow_nb.Network` for building it."""

    compile_again: Callable[..., Any] | None

    @property
    def state(self) -> StateStore:
        """The states by name."""

    @property
    def functions(self) -> Mapping[str, Any]:
        """The functions by name."""

    @property
    def threads(self) -> int:
        """Cores that share the work of one run."""

    @property
    def of_one_program(self) -> Buildable:
        """Itself, or the network that a bundle is made of if it has one program for all sizes."""


def build_network(
    network: Buildable,
    folder: str | os.PathLike[str],
    *,
    name: str | None,
    target: str | None,
    cpu: str | Sequence[str],
    threads: int | None,
    shared: bool,
    embed_constants: bool,
) -> None:
    """Do what :meth:`glow_nb.Network.build` says."""
    place, form = as_path(folder), form_of(shared=shared, embed_constants=embed_constants)
    functions = network.of_one_program.functions
    chosen = name_like(next(iter(functions))) if name is None else checked_name(name)
    wanted = (
        network.threads if threads is None else whole_number("threads", threads, 1, MOST_THREADS)
    )
    targets = targets_named(target, cpu)
    if not targets and wanted == network.threads:
        build_variants(place, chosen, [network.of_one_program], form, network.state, {})
        return
    if network.compile_again is None:
        raise UnsupportedError(
            "build: for other processors or threads the model is compiled again, and it is no "
            "file; give it to glow_nb.build(model, folder, ...)"
        )
    check_place(place, form, targets[0] if targets else Target.host())
    again = network.compile_again(threads=wanted, targets=targets)
    again = [one.of_one_program for one in again]
    build_variants(place, chosen, again, form, network.state, {})


def targets_named(target: str | None, cpu: str | Sequence[str]) -> list[Target]:
    """Return the processors that *target* and *cpu* name, none for the one that compiles.

    Raises:
        OptionError: They name none, or are no names.
    """
    cpus = [cpu] if isinstance(cpu, str) else cpu
    if not isinstance(cpus, list | tuple) or not all(isinstance(one, str) for one in cpus):
        raise OptionError(f"cpu={described(cpu)}: give names of processors, as 'x86-64-v3'")
    return targets_of(target, cpus) if target is not None or cpus else []


def backends_for(
    backend: BackendLike,
    threads: int,
    options: Mapping[str, object],
    targets: Sequence[Target],
) -> list[tuple[BackendLike, dict[str, Any]]]:
    """Return for each of *targets* the backend with its *options*, and options left to give.

    Without targets it is the given one.

    Raises:
        UnsupportedError: It makes no machine code for other processors.
    """
    if not targets:
        return [(backend, dict(options))]
    own = backend_named(backend, threads=threads, options=options)
    if not hasattr(own, "for_target"):
        raise UnsupportedError(
            f"backend={described(backend)}: it makes no machine code for other processors; use "
            'backend="cpu"'
        )
    return [(own.for_target(target), {}) for target in targets]


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
    state: StateStore,
    made_from: Mapping[str, str],
) -> None:
    """Write the bundle of *networks*, one for each processor, with the values of *state*."""
    variants = [Variant(one) for one in map(_natives, networks)]
    platform_like(variants[0].target)
    first = networks[0]
    with state.for_reading() as values:
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
