"""How much text of a compilation goes into a page, so that it stays small enough to be sent."""

from __future__ import annotations

from dataclasses import replace

from glow_nb.report.data import Stage
from glow_nb.report.stages import cut

MOST_LETTERS = 8_000_000
"""Letters of all programs of a page together."""

SHARES = {"items": 0.5, "sources": 0.25, "differences": 0.25}
"""How they are shared."""

STAGE_COUNT = 5
LEAST_OF_ITEM, MOST_OF_ITEM = 160, 4000
"""Letters of the text of an item."""

MOST_OF_SOURCE = 60_000
"""Letters of the source of a kernel."""


class Room:
    """Letters that are left for one program."""

    def __init__(self, programs: int = 1) -> None:
        """Divide a page between *programs* programs."""
        self._left = {name: MOST_LETTERS * share / programs for name, share in SHARES.items()}
        self._of_stage = self._left["items"] / STAGE_COUNT

    def stage(self, stage: Stage) -> Stage:
        """Return *stage* with texts that are cut where all of them are too long."""
        if not stage.items:
            return stage
        room = int(self._of_stage / len(stage.items))
        letters = max(LEAST_OF_ITEM, min(MOST_OF_ITEM, room))
        if sum(len(item.text) for item in stage.items) <= self._of_stage:
            letters = MOST_OF_ITEM
        items = tuple(replace(item, text=cut(item.text, letters)) for item in stage.items)
        return replace(stage, items=items)

    def source(self, text: str) -> str:
        """Return the source of a kernel, or what is left of it."""
        kept = cut(text, int(min(MOST_OF_SOURCE, max(0, self._left["sources"]))))
        self._left["sources"] -= len(kept)
        return kept

    def difference(self, lines: list[str]) -> tuple[str, ...]:
        """Return the *lines* of a difference if there is room for them, else one that says so."""
        size = sum(map(len, lines))
        if size > self._left["differences"]:
            return ("@ left out: the differences of this network are too long for a page",)
        self._left["differences"] -= size
        return tuple(lines)
