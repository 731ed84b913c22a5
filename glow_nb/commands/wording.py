"""Numbers and tables for people."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click
from rich import box
from rich.console import Console
from rich.table import Table

_WIDE = 4000
"""Columns of a line that goes into a file or a pipe: nothing is wrapped or cut there."""


def count_of(number: int, noun: str) -> str:
    """Return ``1 node``, ``2 nodes``."""
    return f"{number} {noun}{'s' * (number != 1)}"


def scaled(number: float, unit: str = "") -> str:
    """Return *number* with a decimal prefix: ``4.09 G``."""
    for prefix, size in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= size:
            return f"{number / size:.2f} {prefix}{unit}"
    return f"{number:g} {unit}".rstrip()


def duration(seconds: float) -> str:
    """Return *seconds* with a prefix, four digits: ``97.91 ms``, ``3.204 us``."""
    for prefix, unit in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= unit:
            return f"{seconds / unit:.4g} {prefix}"
    return f"{seconds * 1e6:.4g} us"


def byte_count(size: float) -> str:
    """Return *size* bytes with a binary prefix: ``9.19 MiB``."""
    for prefix, unit in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if size >= unit:
            return f"{size / unit:.2f} {prefix}"
    return f"{size:.0f} B"


def make_console() -> Console:
    """Return a console on standard output: ruled and coloured on a terminal, plain elsewhere."""
    is_terminal = sys.stdout.isatty()
    return Console(
        force_terminal=is_terminal,
        color_system="auto" if is_terminal else None,
        width=None if is_terminal else _WIDE,
        markup=False,
        emoji=False,
        highlight=False,
    )


def print_table(console: Console, table: Table) -> None:
    """Print *table* on *console*, without blanks at the ends of lines."""
    with console.capture() as capture:
        console.print(table)
    for line in capture.get().splitlines():
        click.echo(line.rstrip())


def make_table(console: Console, title: str, columns: Sequence[str]) -> Table:
    """Return a table; columns whose name begins with ``#`` hold numbers and align right."""
    table = Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD if console.is_terminal else None,
        pad_edge=False,
        padding=(0, 2, 0, 0),
    )
    for column in columns:
        is_number = column.startswith("#")
        table.add_column(
            column.removeprefix("#"),
            justify="right" if is_number else "left",
            no_wrap=is_number,
            overflow="fold",
        )
    return table
