"""The dependences of a piece of work, collected while it is done, and dropped if it has no result.

Comparisons of open sizes note guards (:mod:`glow_nb.base.size`). A pass that only looks, or a rule
that leaves a node as it is, depends on none of its answers.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

Kept = dict[Any, None]
"""Where notes are kept in the end."""

Notes = dict[Any, Kept]
"""What was noted in a trial, and where it is to be kept."""

_TRIALS: ContextVar[tuple[Notes, ...]] = ContextVar("trials", default=())


@contextmanager
def trial() -> Iterator[Notes]:
    """Hold back what the body notes, unless it is noted already; the caller may :func:`keep` it."""
    notes: Notes = {}
    outer = _TRIALS.set((*_TRIALS.get(), notes))
    try:
        yield notes
    finally:
        _TRIALS.reset(outer)


def note(item: Any, kept: Kept) -> None:
    """Note *item*, which is to be *kept*, in the trial that is going on."""
    *_, notes = _TRIALS.get() or (None,)
    if notes is None:
        kept[item] = None
    elif item not in noted(kept):
        notes[item] = kept


def keep(notes: Notes) -> None:
    """Note what a trial has held back."""
    for item, kept in notes.items():
        note(item, kept)


def noted(kept: Kept) -> list[Any]:
    """Return what is *kept*, and what trials that are going on would keep there."""
    tried = (item for notes in _TRIALS.get() for item, place in notes.items() if place is kept)
    return [*kept, *tried]
