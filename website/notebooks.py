"""Notebooks as Markdown: cells of text as they are, code and what it printed as blocks.

Nothing is run: a notebook shows the outputs that it was saved with.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

OUTPUT = "{ .text .output }"
"""What stands behind the fence of a block that was printed."""

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def to_markdown(notebook: str, name: str) -> str:
    """Return the text of a *notebook* (nbformat 4) as Markdown.

    Args:
        notebook: The content of the file.
        name: The file's name, to which the page has a link.
    """
    cells = json.loads(notebook)["cells"]
    parts = [_cell(cell) for cell in cells if _text(cell["source"]).strip()]
    download = f'<p><a href="{name}" download>Download this page as a notebook</a></p>'
    return "\n\n".join([*parts[:1], download, *parts[1:]]) + "\n"


def _cell(cell: Mapping[str, Any]) -> str:
    source = _text(cell["source"]).strip("\n")
    if cell["cell_type"] != "code":
        return source
    return "\n\n".join([_block("python", source), *map(_output, cell["outputs"])])


def _output(output: Mapping[str, Any]) -> str:
    """Return what a cell printed, returned, drew or raised."""
    if output["output_type"] == "stream":
        return _block(OUTPUT, _text(output["text"]))
    if output["output_type"] == "error":
        return _block(OUTPUT, "\n".join(output["traceback"]))
    data = output["data"]
    if "image/svg+xml" in data:
        return f"<div>{_text(data['image/svg+xml'])}</div>"
    if "image/png" in data:
        encoded = "".join(_text(data["image/png"]).split())
        return f'<img alt="what the cell drew" src="data:image/png;base64,{encoded}">'
    return _block(OUTPUT, _text(data.get("text/plain", "")))


def _block(language: str, text: str) -> str:
    plain = _COLOURS.sub("", text).strip("\n")
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", plain)), default=0))
    return f"{fence}{language}\n{plain}\n{fence}"


def _text(lines: str | list[str]) -> str:
    return lines if isinstance(lines, str) else "".join(lines)
