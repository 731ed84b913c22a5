"""Reports as JSON, which a page embeds and from which they are read again."""

from __future__ import annotations

import dataclasses
import json
import math
import types
from functools import cache
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from glow_nb.base.errors import ModelError
from glow_nb.report.data import Report

FORMAT = 1
"""The version of what is embedded; a page of another version is not read."""

_IN_HTML = {ord("<"): "\\u003c", ord(">"): "\\u003e", ord("&"): "\\u0026"}
"""Letters that could end the element that holds the JSON, or mean something in HTML."""

T = TypeVar("T")


def to_json(report: Report) -> str:
    """Return *report* as JSON without a letter that means something in HTML.

    All letters beyond ASCII are escaped as well, the line ends of Unicode among them.
    """
    plain = {"format": FORMAT, **_to_plain(report)}
    text = json.dumps(plain, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return text.translate(_IN_HTML)


def from_json(text: str, source: str) -> Report:
    """Return the report that :func:`to_json` returned as *text*.

    Raises:
        ModelError: The text, which *source* holds, is something else, or of another version.
    """
    try:
        plain = json.loads(text)
        found = plain.pop("format")
        if found == FORMAT:
            made: Report = _from_plain(Report, plain)
            _check_numbers(made)
            return made
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise ModelError(f"{source}: it holds no report: {error!s:.80}") from error
    raise ModelError(
        f"{source}: its data has the format {found!r:.20}, and this version of glow_nb reads "
        f"{FORMAT}; write the report again with the same version as this one"
    )


def _check_numbers(report: Report) -> None:
    """Raise ValueError unless there are programs, and nodes that what is made of them names."""
    for compilation in report.compilations:
        for part in compilation.parts:
            count = sum(len(stage.items) for stage in part.stages if stage.key == "model")
            items = (item for stage in part.stages for item in stage.items)
            wrong = next((n for item in items for n in item.origins if not 0 <= n < count), None)
            if wrong is not None:
                raise ValueError(f"there is no node {wrong} of {count}")
    if not report.compilations or not all(each.parts for each in report.compilations):
        raise ValueError("there is no program")


def _to_plain(value: Any) -> Any:
    """Return *value* as what JSON has; fields that are at their defaults are left out."""
    if dataclasses.is_dataclass(value):
        return {
            field.name: _to_plain(held)
            for field in dataclasses.fields(value)
            if (held := getattr(value, field.name)) != field.default
        }
    if isinstance(value, dict):
        return {key: _to_plain(held) for key, held in value.items()}
    if isinstance(value, tuple):
        return [_to_plain(held) for held in value]
    return value


@cache
def _hints_of(cls: type) -> dict[str, Any]:
    return get_type_hints(cls)


def _from_plain(kind: Any, plain: Any) -> Any:
    """Return *plain* as a value of the type *kind*; raise TypeError or ValueError if it is none."""
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        hints = _hints_of(kind)
        return kind(**{name: _from_plain(hints[name], held) for name, held in plain.items()})
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is types.UnionType:
        return None if plain is None else _from_plain(arguments[0], plain)
    if origin is dict:
        return {key: _from_plain(arguments[1], held) for key, held in plain.items()}
    _check_kind(list if origin is tuple else kind, plain)
    if origin is not tuple:
        return plain
    if arguments[-1] is Ellipsis:
        return tuple(_from_plain(arguments[0], held) for held in plain)
    return tuple(_from_plain(one, held) for one, held in zip(arguments, plain, strict=True))


def _check_kind(kind: type, plain: object) -> None:
    if not isinstance(plain, (int, float) if kind is float else kind):
        raise TypeError(f"{plain!r:.40} is no {kind.__name__}")
    if isinstance(plain, float) and not math.isfinite(plain):
        raise ValueError(f"{plain!r} is no finite number")
