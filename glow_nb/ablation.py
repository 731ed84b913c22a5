"""Passes that are left out, to see what they do."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from glow_nb.errors import OptionError
from glow_nb.passes import STEP_NAMES, Entry, Pipeline, Repeat, name_of_step, step_names
from glow_nb.schema import closest


def left_out(pipeline: Pipeline, names: Collection[str]) -> Pipeline:
    """Return *pipeline* without the passes called *names*, wherever they stand in it."""
    if not names:
        return pipeline
    kept: list[Entry] = []
    for entry in pipeline:
        if isinstance(entry, Repeat):
            kept.append(replace(entry, steps=left_out(entry.steps, names)))
        elif name_of_step(entry) not in names:
            kept.append(entry)
    return tuple(kept)


def check_names(names: Iterable[str], order: Pipeline) -> frozenset[str]:
    """Return *names*, all of which must be those of passes in *order*.

    Raises:
        OptionError: They are no names, or one is that of no pass that would run.
    """
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise OptionError(f"without={names!r:.80}: give a tuple of names of passes")
    passes = [name for name in dict.fromkeys(step_names(order)) if name not in STEP_NAMES]
    given = list(names)
    for name in given:
        if name in STEP_NAMES:
            raise OptionError(
                f"without: {name!r} is a step of the compiler, which always runs; passes alone can "
                "be left out"
            )
        if name not in passes:
            hint = closest(str(name), passes) or f"; there run {', '.join(passes)}"
            raise OptionError(f"without: no pass {name!r:.80} would run{hint}")
    return frozenset(given)
