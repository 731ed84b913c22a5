"""Tables for people."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click
from rich import box
from rich.console import Console
from rich.table import Table

_WIDE = 4000
"""Columns of a line that goes into a file or a pipe: nothing is wrapped or cut there."""


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
