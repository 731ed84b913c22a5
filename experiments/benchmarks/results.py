"""What was measured, where and when? The page docs/performance.md, of docs/measurements.json.

The file holds every figure of the page, by tables with a name. Benchmarks that write tables put
them there (``--data docs/measurements.json``) and write the page anew; so does ::

    python -m experiments.benchmarks.results
"""

from __future__ import annotations

import argparse
import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

DATA = Path("docs/measurements.json")
PAGE = "performance.md"
ROW = re.compile(r"\[\s*(?:\"(?:[^\"\\]|\\.)*\",?\s*)*\]")
"""A list of strings in JSON."""
NUMBER = re.compile(r"(?=.*\d)[-\d.,e+() ]*(of|to|and)?[-\d.,e+() ]*|-?")

HEAD = """\
# Performance

<!-- Written by `python -m experiments.benchmarks.results` of measurements.json. -->

This page compares the speed of glow_nb with that of other engines. [measuring.md](measuring.md)
says how it is measured, and on which processors; [history.md](history.md) says what was tried.

A **ratio** is the time of the faster of ONNX Runtime and OpenVINO over the time of glow_nb, in the
same run on the same machine, by shortest times, and in parentheses by medians. Above 1, glow_nb is
faster. `-` means that something was not measured. Unless a table says otherwise, OpenVINO is
2026.4.1 and ONNX Runtime is 1.32.0, on Zen 5 1.31.1.
"""


def rows_of(table: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of *table* in Markdown; columns of numbers are set to the right."""
    cells = [table["columns"], *table["rows"]]
    sides = [
        "---:" if all(map(NUMBER.fullmatch, c)) else "---" for c in zip(*table["rows"], strict=True)
    ]
    yield "| " + " | ".join(cells[0]) + " |"
    yield "|" + "|".join(sides) + "|"
    for row in cells[1:]:
        yield "| " + " | ".join(row) + " |"


def section(part: Mapping[str, Any]) -> Iterator[str]:
    """Yield the paragraphs of a section of the page."""
    yield f"## {part['title']}"
    yield part["text"]
    if "picture" in part:
        says, path = part["picture"]
        yield f"![{says}]({path})"
    for table in part["tables"]:
        yield f"{table['measured']} Recorded {table['recorded']}."
        yield "\n".join(rows_of(table))
        if "note" in table:
            yield table["note"]
    if "command" in part:
        yield f"To repeat: `{part['command'].replace('; ', '`, then `')}`."


def page(data: Mapping[str, Any]) -> str:
    """Return the page of *data*."""
    parts = [HEAD.strip(), *(text for part in data["sections"] for text in section(part))]
    return "\n\n".join(parts) + "\n"


def text_of(data: Mapping[str, Any]) -> str:
    """Return *data* as JSON, with each row of a table on a line of its own."""
    text = json.dumps(data, indent=1, ensure_ascii=False)
    return ROW.sub(lambda row: re.sub(r"\s*\n\s*", " ", row[0]), text) + "\n"


def write(data: Mapping[str, Any], path: Path) -> None:
    """Write *data* to *path*, and the page beside it."""
    path.write_text(text_of(data), encoding="utf-8")
    path.with_name(PAGE).write_text(page(data), encoding="utf-8")


def read(path: Path) -> dict[str, Any]:
    """Return what the file *path* holds."""
    data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return data


def record(path: Path, name: str, lines: Sequence[str]) -> None:
    """Put a table into the file *path* in place of that called *name*, and write the page anew.

    Args:
        path: The file of measurements.
        name: The name of the table.
        lines: The table in Markdown; what stands before it says where it was measured.
    """
    data = read(path)
    tables = [table for part in data["sections"] for table in part["tables"]]
    found = next((table for table in tables if table["name"] == name), None)
    if found is None:
        raise SystemExit(f"{path}: there is no table {name!r}")
    cells = [
        [cell.strip() for cell in line.strip()[1:-1].split("|")]
        for line in lines
        if line.startswith("|")
    ]
    said = " ".join(
        line.strip() for line in lines if line.strip() and not line.startswith(("|", "!"))
    )
    found["columns"], found["rows"] = cells[0], cells[2:]
    found["measured"] = said or found["measured"]
    found["recorded"] = time.strftime("%Y-%m-%d")
    write(data, path)


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", type=Path, default=DATA, help="the file of measurements")
    path = parser.parse_args().data
    write(read(path), path)


if __name__ == "__main__":
    main()
