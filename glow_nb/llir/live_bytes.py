"""The live memory at each instruction, kept up to date while buffers come and go.

Of sizes that are known only when the network runs, those of the example count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from glow_nb.base.schema import operands_of
from glow_nb.base.size import hinted
from glow_nb.llir.program import Activation, Buffer, Instruction


@dataclass(frozen=True)
class Change:
    """Bytes that are live, or no longer live if negative, from instruction *begin* up to *end*."""

    begin: int
    end: int
    size_bytes: int


class LiveBytes:
    """The sum of the activations between their first and last use, at each instruction.

    Attributes:
        first: Number of the first instruction that touches each region.
        last: Number of the last one.
    """

    def __init__(self, work: Sequence[Instruction]) -> None:
        """Read the lifetimes off *work*, which holds no markers."""
        self.first: dict[Buffer, int] = {}
        self.last: dict[Buffer, int] = {}
        for number, instruction in enumerate(work):
            for buffer in operands_of(instruction):
                self.first.setdefault(buffer.root, number)
                self.last[buffer.root] = number
        self._live = np.zeros(len(work) + 1, np.int64)
        for root, begin in self.first.items():
            if isinstance(root, Activation):
                self._add(Change(begin, self.last[root] + 1, root.type.size_bytes))

    @property
    def peak(self) -> int:
        """The most bytes that are live at one instruction."""
        return int(self._live.max())

    def take(self, *changes: Change) -> bool:
        """Make all *changes* if the peak does not grow by them; return whether they were made."""
        before, peak = self._live.copy(), self.peak
        for change in changes:
            self._add(change)
        if self.peak > peak:
            self._live = before
            return False
        return True

    def _add(self, change: Change) -> None:
        self._live[change.begin : change.end] += hinted(change.size_bytes)
