"""What commands say of sizes that stay open: ranges by ``--size``, an example by ``--hint``."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import click
from typing_extensions import override

from glow_nb.base.errors import OptionError

Named = tuple[str, Any]


class RangeType(click.ParamType[Named]):
    """``NAME=LEAST..GREATEST`` of a dimension that stays open."""

    name = "name=range"

    @override
    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Named:
        if isinstance(value, tuple):
            return value
        name, _, ends = value.rpartition("=")
        found = re.fullmatch(r"(\d{1,15})\.\.(\d{1,15})", ends, re.ASCII)
        if not found or not name:
            self.fail(f"{value!r} is not NAME=LEAST..GREATEST, as length=1..512", param, ctx)
        return name, (int(found[1]), int(found[2]))


class HintType(click.ParamType[Named]):
    """``NAME=SIZE`` of an example."""

    name = "name=size"

    @override
    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Named:
        if isinstance(value, tuple):
            return value
        name, _, size = value.rpartition("=")
        if not re.fullmatch(r"\d{1,15}", size, re.ASCII) or not name:
            self.fail(f"{value!r} is not NAME=SIZE, as length=128", param, ctx)
        return name, int(size)


def _as_dict(option: str, given: tuple[Named, ...]) -> dict[str, Any] | None:
    """Return what an *option* says by name, None if it is not used."""
    found: dict[str, Any] = {}
    for name, value in given:
        if name in found:
            raise OptionError(f"{option} {name}=...: it is given twice; leave one of them out")
        found[name] = value
    return found or None


def require_no_sizes(model: Path, sizes: Mapping[str, Any]) -> None:
    """Raise OptionError if anything is said of *sizes* of a *model* that has fixed ones."""
    for option, given in (("--size", sizes["sizes"]), ("--hint", sizes["hints"])):
        if given:
            raise OptionError(f"{model}: its sizes are fixed; leave {option} {list(given)} out")


Command = TypeVar("Command", bound=Callable[..., object])


def size_options(command: Command) -> Command:
    """Add ``--size`` and ``--hint``; *command* gets what they say as ``sizes``, for ``compile``."""

    @wraps(command)
    def given(
        *arguments: Any, ranges: tuple[Named, ...], examples: tuple[Named, ...], **more: Any
    ) -> object:
        sizes = {"sizes": _as_dict("--size", ranges), "hints": _as_dict("--hint", examples)}
        return command(*arguments, sizes=sizes, **more)

    size = click.option(
        *("--size", "ranges"),
        type=RangeType(),
        multiple=True,
        metavar="NAME=LEAST..GREATEST",
        help="Range of a dimension whose size each run tells (length=1..512). Repeat it for each; "
        "a dimension without one is 1 or more.",
    )
    hint = click.option(
        *("--hint", "examples"),
        type=HintType(),
        multiple=True,
        metavar="NAME=SIZE",
        help="Size of such a dimension that the code is planned for (length=128); it is right for "
        "all sizes of the range.",
    )
    decorated: Any = given
    made: Command = size(hint(decorated))
    return made
