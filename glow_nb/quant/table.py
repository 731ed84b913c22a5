"""Tables of reports: columns of text, and of numbers, which align right."""

from __future__ import annotations

from dataclasses import dataclass

from typing_extensions import override


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
