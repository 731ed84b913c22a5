"""The page of a report: one HTML file with its data, its style and its code in it."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

from glow_nb.base.errors import ModelError
from glow_nb.report.data import Report
from glow_nb.report.embedded import from_json, to_json
from glow_nb.system.regular_files import read_text
from glow_nb.system.replaced_files import replace_file

SCRIPTS = (
    "data.js",
    "formats.js",
    "limits.js",
    "elements.js",
    "list.js",
    "overview.js",
    "links.js",
    "stages.js",
    "details.js",
    "passes.js",
    "roofline.js",
    "kernels.js",
    "memory.js",
    "weights.js",
    "comparison.js",
    "comparison_parts.js",
    "main.js",
)
"""The code of the page, in the order in which it runs."""

_DATA = re.compile(r'<script type="application/json" id="report">(.*?)</script>', re.DOTALL)


def page_of(report: Report) -> str:
    """Return *report* as a page that needs nothing beside it."""
    environment = _environment()
    sources = environment.loader
    assert isinstance(sources, PackageLoader)
    scripts = [sources.get_source(environment, name)[0] for name in SCRIPTS]
    style = sources.get_source(environment, "style.css")[0]
    return environment.get_template("report.html.j2").render(
        title=report.title,
        version=report.version,
        style=style,
        data=to_json(report),
        scripts=scripts,
    )


def write_page(report: Report, path: Path) -> None:
    """Write *report* to the file *path*, whole or not at all.

    Raises:
        GlowError: The file cannot be written.
    """
    text = page_of(report)
    replace_file(  # names may have letters that are none, as those of files
        path, lambda place: place.write_text(text, encoding="utf-8", errors="backslashreplace")
    )


def read_page(path: Path) -> Report:
    """Return the report that the page *path* shows.

    Raises:
        ModelError: The file cannot be read, is no such page, or is one of another version.
    """
    try:
        found = _DATA.search(read_text(path))
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ModelError(f"{path}: it is no page of text: {error}") from error
    if found is None:
        raise ModelError(f"{path}: it is no page that 'glow-nb report' wrote")
    return from_json(found[1], str(path))


@cache
def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("glow_nb.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
