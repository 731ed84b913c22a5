"""The reference of the numbers that a machine row has: names, units and meanings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

from glow_nb.kernels.machine.fact import Fact
from glow_nb.kernels.machine.machine import GROUPS
from website.markdown import table


def reference() -> str:
    """Return a table of the numbers for each group of them."""
    return "\n".join(
        f"### {group.__name__}\n\n" + table(("number", "unit", "meaning"), _rows(group))
        for group in GROUPS
    )


def _rows(group: type) -> Iterator[tuple[str, str, str]]:
    for item in fields(group):
        fact: Fact = item.metadata["fact"]
        yield f"`{item.name}`", fact.unit, fact.meaning.replace("``", "`")
