"""A fact about a processor: a number of :class:`glow_nb.kernels.machine.machine.Machine`.

It stands in the dataclass with its unit, its meaning, and its provenance: what was measured, and on
which processor.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

UNRECORDED = "Measured; on which processor was not recorded."
"""The provenance of numbers that were found before provenance was kept."""


@dataclass(frozen=True)
class Fact:
    """The description of a number besides its value.

    Attributes:
        unit: Its unit, in the plural; empty for a plain ratio.
        meaning: The meaning of the number, as a noun phrase or sentences.
        provenance: The measurement of the number and its processor, or the reason for it.
    """

    unit: str
    meaning: str
    provenance: str


def fact(default: object, unit: str, meaning: str, provenance: str) -> Any:
    """Return a dataclass field: its *default* holds for all rows that say nothing else.

    Args:
        default: The number.
        unit: See :class:`Fact`.
        meaning: See :class:`Fact`.
        provenance: See :class:`Fact`; that of the default.
    """
    return field(default=default, metadata={"fact": Fact(unit, meaning, provenance)})
