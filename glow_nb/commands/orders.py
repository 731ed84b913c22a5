"""Passes and steps by name: what ``--passes`` says, and an error that lists what there is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import click

from glow_nb.backends import Backend
from glow_nb.base.errors import OptionError
from glow_nb.base.schema import closest, in_groups
from glow_nb.base.steps import Entries, Entry, Step, read_steps, steps_in
from glow_nb.compiler.driver import steps_by_kind, with_traits
from glow_nb.compiler.pipelines import INFERENCE, INSTRUCTIONS, TRAINING
from glow_nb.network.compilation import graph_order, program_order

PIPELINES = {"INFERENCE": INFERENCE, "INSTRUCTIONS": INSTRUCTIONS, "TRAINING": TRAINING}
"""Pipelines that can be named like a pass."""


def passes_option(*, required: bool) -> Callable[[Any], Any]:
    """Return the option ``--passes``."""
    return click.option(
        "--passes",
        required=required,
        metavar="NAME,NAME,...",
        help="Passes to run, in order. Options follow a name as in IR text: allocate{alignment = "
        "128}. An unknown name lists them all.",
    )


def read_order(text: str, backend: Backend) -> Entries:
    """Return what *text* names, with the options and traits that *backend* gives the steps."""
    return with_traits(tuple(_entries(text, backend)), backend.traits)


def require_step(option: str, step: str, groups: Mapping[str, Iterable[str]]) -> None:
    """Raise OptionError, in the words of the command's *option*, if no group has this *step*."""
    known = [name for names in groups.values() for name in names]
    if step not in known:
        hint = closest(step, known)
        raise OptionError(f"{option} {step}: there is no such step{hint}{in_groups(groups)}")


def _entries(text: str, backend: Backend) -> Iterator[Entry]:
    """Yield what *text* names, each step with the options that the compiler gives it."""
    steps = steps_in(graph_order(backend) + program_order(backend))
    own = {step.name: step.options for step in steps if step.options}
    groups = {"pipelines": tuple(PIPELINES), **steps_by_kind()}
    for step in read_steps(text, "--passes"):
        require_step("--passes", step.label, groups)
        if step.name in PIPELINES and not step.options:
            yield from PIPELINES[step.name]
        else:
            yield Step(step.name, {**own.get(step.name, {}), **step.options})
