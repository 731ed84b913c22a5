"""How a run goes through stages, each of which may decide sizes of later ones."""

from __future__ import annotations

from typing import NamedTuple

from glow_nb.base.size import Guard, Symbol
from glow_nb.base.staged_run import Passage, RunStage, StagedRun
from glow_nb.network.levels import Border


class Course(NamedTuple):
    """How a run goes through stages.

    Attributes:
        border: The inputs and outputs of the whole.
        passages: The values that pass between each stage and the others, in order.
        guards: The comparisons of sizes that are fed for which all of it is right.
    """

    border: Border
    passages: tuple[Passage, ...]
    guards: tuple[Guard, ...]

    @property
    def decided(self) -> tuple[Symbol, ...]:
        """The data-dependent sizes."""
        return tuple(d.symbol for passage in self.passages for d in passage.decisions)

    @property
    def names(self) -> str:
        """Their names, as messages list them."""
        return ", ".join(symbol.name for symbol in self.decided)

    def run_by(self, run: RunStage) -> StagedRun:
        """Return runs of the whole whose stages *run* runs."""
        return StagedRun(tuple(self.border.inputs), tuple(self.border.outputs), self.passages, run)
