"""Pipelines as data: steps, repeats of steps, and their names."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Self, SupportsIndex, TypeVar

from glow_nb.base.errors import UnsupportedError
from glow_nb.base.foreign import name_of
from glow_nb.base.override import override
from glow_nb.base.text import TokenReader

IR = TypeVar("IR")
Pass = Callable[..., IR]


@dataclass(frozen=True)
class Step:
    """One entry of a pipeline: a pass, by its name or the function itself, with its options.

    Attributes:
        name: The pass: its name, or the function or rules themselves; :attr:`label` is a text.
        options: Its keyword arguments.
        is_last: Run it once, after the backend's own graph passes, which would undo it.
        needed: Why it cannot be left out (``compile(without=...)``); empty if it can.
        owner: The part of a compilation that it belongs to: the name of a backend, or "compiler";
            empty for a step of the caller's pipeline.
        does: One line that says what it does; by default the first of its documentation.
    """

    name: str | Pass[Any]
    options: Mapping[str, Any] = field(default_factory=dict)
    is_last: bool = False
    needed: str = ""
    owner: str = ""
    does: str = ""

    @property
    def label(self) -> str:
        """Its name in observers, errors and tables: the name of the pass, or of the function."""
        return self.name if isinstance(self.name, str) else name_of(self.name)

    def __copy__(self) -> Self:
        """Return this step itself, which is immutable."""
        return self

    def __deepcopy__(self, _: dict[int, object]) -> Self:
        """Return this step itself, with the tables and targets that are its options."""
        return self

    @override
    def __reduce_ex__(self, protocol: SupportsIndex) -> str | tuple[Any, ...]:
        """Be pickled; refuse if a backend gave its options, such as a table of kernels.

        Raises:
            UnsupportedError: It is a step of a whole compilation.
        """
        if self.owner:
            raise UnsupportedError(
                f"step {self.label!r} of {self.owner} cannot be pickled: its options are of this "
                "process; pickle the pipeline that was given to compile, or print this one"
            )
        return super().__reduce_ex__(protocol)


@dataclass(frozen=True)
class Repeat:
    """Run *steps* until the IR stops changing, at most *limit* times.

    If the limit is reached, the observer is called, and a :class:`GlowWarning` is emitted.

    Attributes:
        steps: The repeated steps, in order.
        limit: The most rounds.
    """

    steps: tuple[Step | Repeat | str | Pass[Any], ...]
    limit: int = 10


Entry = Step | Repeat | str | Pass[Any]
Entries = tuple[Entry, ...]
"""What runs, in order; :class:`glow_nb.Pipeline` is such a tuple, too."""


DESCRIPTIONS: dict[str, str] = {}
"""One line for each registered pass, and each step of the compiler, that says what it does."""


def what_it_does(step: Step) -> str:
    """Return one line that says what *step* does."""
    if isinstance(step.name, str):
        return step.does or DESCRIPTIONS.get(step.name, "")
    return step.does or first_line(step.name)


def first_line(documented: object) -> str:
    """Return the first line of the documentation of *documented*, as plain text."""
    plain = documented.func if isinstance(documented, partial) else documented
    text = getattr(plain, "__doc__", None)
    first = text.strip().partition("\n")[0] if isinstance(text, str) else ""
    return _MARKUP.sub(lambda found: found[1] or found[2] or found[3], first)


_MARKUP = re.compile(r"``(.+?)``|(?::\w+:)?`([^`]+)`|\*(\w+)\*")
"""What documentation has around names."""


def as_step(entry: Step | str | Pass[Any]) -> Step:
    """Return *entry* as a Step; one that is a name or a function has no options."""
    return entry if isinstance(entry, Step) else Step(entry)


def read_steps(text: str, source: str) -> tuple[Step, ...]:
    """Return the steps that *text* names: ``peephole, allocate{alignment = 128}``.

    Raises:
        ParseError: *text*, which errors call *source*, does not have this form.
    """
    reader, steps = TokenReader(text, source), list[Step]()
    while True:
        name = reader.expect_kind("word", "the name of a pass").text
        steps.append(Step(name, reader.read_attributes()))
        if reader.token.kind == "end":
            return tuple(steps)
        reader.expect(",")


def steps_in(pipeline: Entries) -> list[Step]:
    """Return the steps of *pipeline* in order, those inside of Repeats included."""
    steps: list[Step] = []
    for entry in pipeline:
        steps += steps_in(entry.steps) if isinstance(entry, Repeat) else [as_step(entry)]
    return steps


COMPILER = "compiler"
"""The owner of steps that are neither of a pipeline nor of a backend."""


def owned(entries: Entries, owner: str) -> Entries:
    """Return *entries* as steps of *owner*."""
    return tuple(
        replace(entry, steps=owned(entry.steps, owner))
        if isinstance(entry, Repeat)
        else replace(as_step(entry), owner=owner)
        for entry in entries
    )


def step_names(pipeline: Entries) -> list[str]:
    """Return the names of the steps of *pipeline* in order, those inside of Repeats included."""
    return [name_of_step(step) for step in steps_in(pipeline)]


def name_of_step(entry: Entry) -> str:
    """Return the name of *entry* for observers and errors: ``repeat`` if it is a Repeat."""
    if isinstance(entry, Repeat):
        return "repeat"
    return as_step(entry).label
