"""Reports as JSON, which a page embeds and from which they are read again."""

from __future__ import annotations

import json
import math

from glow_nb.base.errors import GlowError, ModelError
from glow_nb.base.plain_data import from_plain, to_plain
from glow_nb.report.data import Report

FORMAT = 1
"""The version of what is embedded; a page of another version is not read."""

_IN_HTML = {ord("<"): "\\u003c", ord(">"): "\\u003e", ord("&"): "\\u0026"}
"""Letters that could end the element that holds the JSON, or mean something in HTML."""


def to_json(report: Report) -> str:
    """Return *report* as JSON without a letter that means something in HTML.

    All letters beyond ASCII are escaped as well, the line ends of Unicode among them.
    """
    plain = {"format": FORMAT, **to_plain(report)}
    text = json.dumps(plain, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return text.translate(_IN_HTML)


def from_json(text: str, source: str) -> Report:
    """Return the report that :func:`to_json` returned as *text*.

    Raises:
        ModelError: The text, which *source* holds, is something else, or of another version.
    """
    try:
        plain = json.loads(text, parse_float=_finite, parse_constant=_finite)
        found = plain.pop("format")
        if found == FORMAT:
            made = from_plain(Report, plain)
            _check_numbers(made)
            return made
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError, GlowError) as error:
        raise ModelError(f"{source}: it holds no report: {error!s:.160}") from error
    raise ModelError(
        f"{source}: its data has the format {found!r:.20}, and this version of glow_nb reads "
        f"{FORMAT}; write the report again with the same version as this one"
    )


def _finite(text: str) -> float:
    """Return the number that *text* is; JSON's reader takes NaN, Infinity and 1e999, too."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is no finite number")
    return number


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
