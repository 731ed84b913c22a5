"""What a user may ask of a backend: an object whose fields are the options.

A field says all there is to an option, so that one place defines it: its default, the values that
it may have, and what the command tells of the flag that is made of it::

    @dataclass(frozen=True)
    class Cpu(BackendOptions):
        tune: bool = option(False, help="Measure how each product is computed fastest.")
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, fields
from typing import ClassVar, TypeVar

from glow_nb.backends.backend import Backend
from glow_nb.base.arguments import described, number, truth
from glow_nb.base.errors import OptionError

T = TypeVar("T", bound=str | bool | float)


def option(
    default: T, *, help: str, choices: tuple[str, ...] = (), least: float | None = None
) -> T:
    """Return a field: a switch, a text of *choices*, or a number of *least* or more."""
    made: T = field(default=default, metadata={"help": help, "choices": choices, "least": least})
    return made


@dataclass(frozen=True)
class CheckedOptions:
    """Options whose values are checked when they are made.

    Attributes:
        name: What ``compile(backend=...)`` calls the backend.
    """

    name: ClassVar[str]

    def __post_init__(self) -> None:
        """Raise OptionError for a value that an option may not have."""
        for known in fields(self):
            value, choices = getattr(self, known.name), known.metadata.get("choices")
            least = known.metadata.get("least")
            if choices is None:  # a field that option() has not made
                continue
            if least is not None:
                object.__setattr__(self, known.name, number(known.name, value, least))
            elif not choices:
                truth(known.name, value)
            elif not isinstance(value, str) or value not in choices:
                raise OptionError(f"{known.name}={described(value)}: give one of {choices}")


@dataclass(frozen=True)
class BackendOptions(CheckedOptions, ABC):
    """The options of a backend; ``compile(backend=...)`` takes such an object."""

    @abstractmethod
    def make(self, *, threads: int) -> Backend:
        """Return the backend for networks that *threads* cores run."""
