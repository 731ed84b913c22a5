"""The output about machine rows: the row of this machine, and the numbers of each."""

from __future__ import annotations

from typing import Any

import click

from glow_nb.base.errors import OptionError
from glow_nb.commands.json_text import json_text
from glow_nb.commands.wording import make_console, make_table, print_table
from glow_nb.kernels.machine.machine import Machine
from glow_nb.kernels.machine.rows import ROWS
from glow_nb.kernels.target import Target

HOST = "host"
"""What the row of this machine is called, with the caches that the system tells."""


def row_called(name: str) -> Machine:
    """Return the row called *name*; :data:`HOST` for that of this machine.

    Raises:
        OptionError: No row is called so.
    """
    if name == HOST:
        return Target.host().machine
    if name not in ROWS:
        raise OptionError(f"machine: no row is called {name!r}; choose one of {[HOST, *ROWS]}")
    return ROWS[name]


def describe_row(target: Target) -> list[str]:
    """Return lines about the row of *target*, and why it has it."""
    chosen = target.chosen_row
    lines = [f"row {chosen.machine.name}, {chosen.machine.title}: {chosen.reason}"]
    if target.machine != chosen.machine:
        lines.append("sizes of caches are those that the system tells, not those of the row")
    return lines


def show_row(name: str, *, as_json: bool) -> None:
    """Print the numbers of the row called *name*: unit, meaning and provenance of each."""
    machine = row_called(name)
    if as_json:
        click.echo(json_text(row_document(machine)))
        return
    console = make_console()
    click.echo(f"row {machine.name}, {machine.title}")
    columns = ["group", "number", "#value", "unit", "meaning", "provenance"]
    table = make_table(console, "", columns)
    table.title = None
    for number in machine.numbers:
        fact, value = number.fact, _text_of(number.value)
        table.add_row(number.group, number.name, value, fact.unit, fact.meaning, fact.provenance)
    print_table(console, table)


def show_rows(*, as_json: bool) -> None:
    """Print all rows, and for which processors they are."""
    if as_json:
        click.echo(json_text({"rows": [row_document(row) for row in ROWS.values()]}))
        return
    console = make_console()
    table = make_table(console, "", ["row", "for", "LLVM's names", "#vector bytes"])
    table.title = None
    for row in ROWS.values():
        table.add_row(row.name, row.title, ", ".join(row.cpus), str(row.vector_bytes))
    print_table(console, table)


def row_document(machine: Machine) -> dict[str, Any]:
    """Return *machine* as a document for JSON."""
    numbers = {
        number.name: {
            "group": number.group,
            "value": number.value,
            "unit": number.fact.unit,
            "meaning": number.fact.meaning,
            "provenance": number.fact.provenance,
        }
        for number in machine.numbers
    }
    return {
        "name": machine.name,
        "title": machine.title,
        "cpus": list(machine.cpus),
        "vector_bytes": machine.vector_bytes,
        "numbers": numbers,
    }


def _text_of(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(_text_of, value))
    return f"{value:.4g}" if isinstance(value, float) else str(value)
