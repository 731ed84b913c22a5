"""Tables of reports: columns of text, and of numbers, which align right."""

from __future__ import annotations

import html
from dataclasses import dataclass

from glow_nb.base.override import override


@dataclass(frozen=True)
class Table:
    """Cells in rows below the names of their columns; printed in columns.

    Attributes:
        columns: Their names; one that begins with ``#`` holds numbers.
        rows: The cells of each row.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    @override
    def __str__(self) -> str:
        names = tuple(column.removeprefix("#") for column in self.columns)
        lines = (names, *self.rows)
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        return "\n".join(
            "  ".join(
                cell.rjust(width) if column.startswith("#") else cell.ljust(width)
                for cell, width, column in zip(line, widths, self.columns, strict=True)
            ).rstrip()
            for line in lines
        )

    def _repr_html_(self) -> str:
        """Return the table for a notebook; all text in it is escaped."""
        head = "".join(_cell("th", c.removeprefix("#"), c) for c in self.columns)
        cells = [
            "".join(_cell("td", text, c) for text, c in zip(row, self.columns, strict=True))
            for row in self.rows
        ]
        body = "".join(f"<tr>{row}</tr>" for row in cells)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(tag: str, text: str, column: str) -> str:
    align = "right" if column.startswith("#") else "left"
    return f'<{tag} style="text-align:{align}">{html.escape(text)}</{tag}>'


def html_text(text: str) -> str:
    """Return *text*, of several lines, for a notebook, in the colours of that."""
    return f"<pre>{html.escape(text)}</pre>"
