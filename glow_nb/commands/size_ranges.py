"""Options of commands for sizes that stay open: ranges by ``--size``, an example by ``--hint``."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

import click
from typing_extensions import override

from glow_nb.base.errors import OptionError

Named = tuple[str, Any]


class NamedSizes(click.ParamType[Named]):
    """A dimension that stays open, and its range: ``NAME=LEAST..GREATEST``."""

    name = "name=sizes"

    def __init__(self, pattern: str, form: str) -> None:
        """Take what fits *pattern*, whose groups are sizes, and looks like the *form* to users."""
        self._pattern, self._form = re.compile(pattern, re.ASCII), form

    @override
    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Named:
        if isinstance(value, tuple):
            return value
        name, _, said = value.rpartition("=")
        found = self._pattern.fullmatch(said)
        if not found or not name:
            self.fail(f"{value!r} is not {self._form}", param, ctx)
        sizes = tuple(map(int, found.groups()))
        return name, sizes if len(sizes) > 1 else sizes[0]


RANGE = NamedSizes(r"(\d{1,15})\.\.(\d{1,15})", "NAME=LEAST..GREATEST, as length=1..512")
HINT = NamedSizes(r"(\d{1,15})", "NAME=SIZE, as length=128")


NO_SIZES: Mapping[str, Any] = MappingProxyType({"sizes": None, "hints": None})
"""The arguments about open sizes of a command without such options."""


def are_given(sizes: Mapping[str, Any]) -> bool:
    """Return whether there are settings for *sizes* that stay open."""
    return any(said is not None for said in sizes.values())


def _as_dict(option: str, given: tuple[Named, ...]) -> dict[str, Any] | None:
    """Return what an *option* says by name, None if it is not used."""
    found: dict[str, Any] = {}
    for name, value in given:
        if name in found:
            raise OptionError(f"{option} {name}=...: it is given twice; leave one of them out")
        found[name] = value
    return found or None


def require_no_sizes(model: Path, sizes: Mapping[str, Any]) -> None:
    """Require that there are no settings for *sizes* of a *model* that has fixed ones."""
    for option, given in (("--size", sizes["sizes"]), ("--hint", sizes["hints"])):
        if given:
            raise OptionError(f"{model}: its sizes are fixed; leave {option} {list(given)} out")


_ARGUMENT = re.compile(
    r"(?P<argument>sizes|hints)=\{(?P<quote>['\"])(?P<name>.*?)(?P=quote): "
    r"(?:\((?P<low>\d+), (?P<high>\d+)\)|(?P<size>\d+|\.\.\.))\}"
)
_OPTIONS = {"sizes": "--size", "hints": "--hint"}


def in_words_of_options(text: str) -> str:
    """Return the *text* of an error about arguments of ``compile`` with the options in place."""

    def option(found: re.Match[str]) -> str:
        said = found["size"] or f"{found['low']}..{found['high']}"
        return f"{_OPTIONS[found['argument']]} {found['name']}={said}"

    return _ARGUMENT.sub(option, text).replace("sizes= and shapes=", "--size and --shape")


Command = TypeVar("Command", bound=Callable[..., object])


def size_options(command: Command) -> Command:
    """Add ``--size`` and ``--hint``; *command* gets what they say as ``sizes``, for ``compile``."""

    @wraps(command)
    def given(
        *arguments: Any, ranges: tuple[Named, ...], examples: tuple[Named, ...], **more: Any
    ) -> object:
        sizes = {"sizes": _as_dict("--size", ranges), "hints": _as_dict("--hint", examples)}
        try:
            return command(*arguments, sizes=sizes, **more)
        except OptionError as error:
            raise OptionError(in_words_of_options(str(error))) from error

    size = click.option(
        *("--size", "ranges"),
        type=RANGE,
        multiple=True,
        metavar="NAME=LEAST..GREATEST",
        help="Range of a dimension that stays open (length=1..512). Repeat it for each. Without "
        "it, the range of an open dimension is 1 or more.",
    )
    hint = click.option(
        *("--hint", "examples"),
        type=HINT,
        multiple=True,
        metavar="NAME=SIZE",
        help="Typical size of an open dimension, for which kernels are optimized (length=128). "
        "Results are right for all sizes of the range.",
    )
    decorated: Any = given
    made: Command = size(hint(decorated))
    return made
