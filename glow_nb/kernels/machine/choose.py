"""The machine row that a processor gets, and why."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from glow_nb.kernels.machine.machine import Machine
from glow_nb.kernels.machine.rows import CONSERVATIVE, MEASURED


@dataclass(frozen=True)
class ChosenRow:
    """A row, and why it is taken.

    Attributes:
        machine: The row.
        reason: A sentence.
    """

    machine: Machine
    reason: str


@cache
def choose_row(cpu: str, vector_bytes: int) -> ChosenRow:
    """Return the row for a processor.

    Args:
        cpu: LLVM's name of it.
        vector_bytes: Bytes of its vector registers, as its features tell them.
    """
    for row in MEASURED:
        if cpu in row.cpus:
            return ChosenRow(row, f'LLVM calls the processor "{cpu}", which this row is for.')
    return ChosenRow(
        CONSERVATIVE[vector_bytes],
        f'No row is for a processor that LLVM calls "{cpu}". It has vectors of {vector_bytes} '
        "bytes, and this is the conservative row for these.",
    )
