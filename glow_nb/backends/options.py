"""The options of a backend: an object whose fields are the options.

A field says all there is to an option, so that one place defines it: its default, the values that
it may have, and what the command tells of the flag that is made of it::

    @dataclass(frozen=True)
    class Cpu(BackendOptions):
        tune: bool = option(False, help="Measure how each product is computed fastest.")
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import KW_ONLY, dataclass, field, fields
from typing import ClassVar, TypeVar, get_args

from typing_extensions import override

from glow_nb.backends.backend import Backend
from glow_nb.base.arguments import described, number, truth
from glow_nb.base.errors import OptionError
from glow_nb.base.precision import FULL, Precision

T = TypeVar("T", bound=str | bool | float | tuple[str, ...])


def option(
    default: T, *, help: str, choices: tuple[str, ...] = (), least: float | None = None
) -> T:
    """Return a field: a switch, a text of *choices*, a number of *least* or more, or any texts."""
    made: T = field(default=default, metadata={"help": help, "choices": choices, "least": least})
    return made


@dataclass(frozen=True)
class CheckedOptions:
    """Options whose values are checked when they are made.

    Attributes:
        name: The name in ``compile(backend=...)``.
    """

    name: ClassVar[str]

    def __post_init__(self) -> None:
        """Raise OptionError for a value that an option may not have."""
        for known in fields(self):
            value, choices = getattr(self, known.name), known.metadata.get("choices")
            least = known.metadata.get("least")
            if choices is None:  # a field that option() has not made
                continue
            if isinstance(known.default, tuple):
                object.__setattr__(self, known.name, _texts(known.name, value))
            elif least is not None:
                object.__setattr__(self, known.name, number(known.name, value, least))
            elif not choices:
                truth(known.name, value)
            elif not isinstance(value, str) or value not in choices:
                raise OptionError(f"{known.name}={described(value)}: give one of {choices}")


def _texts(name: str, value: object) -> tuple[str, ...]:
    """Return *value*, of the option *name*, as a tuple of texts; raise OptionError for others."""
    if isinstance(value, list | tuple) and all(isinstance(each, str) for each in value):
        return tuple(value)
    raise OptionError(f"{name}={described(value)}: give a tuple of texts")


@dataclass(frozen=True)
class BackendOptions(CheckedOptions, ABC):
    """The options of a backend; ``compile(backend=...)`` takes such an object.

    Attributes:
        precision: "float32" computes in the kinds of the model, "bfloat16" multiplies numbers of 16
            bits where the model multiplies float32: operands of convolutions and matrix products
            are rounded to 8 significant bits, their sums are float32. That is faster where the
            processor has instructions for it, and halves the memory of weights everywhere. All else
            computes in float32; ``net.precision`` says which layers, and why.
        keep: Layers that stay float32 all the same, by their names in the model or as globs,
            ``("*head*",)``.
    """

    _: KW_ONLY
    precision: Precision = option(
        FULL,
        choices=get_args(Precision),
        help="What factors of float32 are rounded to in convolutions and matrix products, whose "
        "sums stay float32: bfloat16 is faster where the processor has instructions for it.",
    )
    keep: tuple[str, ...] = option(
        (),
        help="Layers that stay float32 with --precision bfloat16, by name or glob. Repeat it for "
        "each.",
    )

    @override
    def __post_init__(self) -> None:
        super().__post_init__()
        if self.keep and self.precision == FULL:
            raise OptionError(
                f"keep={self.keep!r:.80}: precision is {FULL!r}, which keeps all layers; leave "
                "keep out, or give precision='bfloat16'"
            )

    @abstractmethod
    def make(self, *, threads: int) -> Backend:
        """Return the backend for networks that *threads* cores run."""
