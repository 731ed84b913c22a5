"""The effect of each step of the compiler, noted while the steps run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from glow_nb.base.passes import PassRun
from glow_nb.base.steps import DESCRIPTIONS
from glow_nb.hlir.graph import Function, Node
from glow_nb.hlir.print import print_node
from glow_nb.llir.print import print_instruction
from glow_nb.llir.program import Alloc, Instruction, Program
from glow_nb.report.data import PassRow
from glow_nb.report.line_difference import unified
from glow_nb.report.room import Room
from glow_nb.report.stages import cut

MOST_LINES = 1500
"""Lines of one difference that are kept."""

LONGEST_LINE = 600
"""A longer line is cut."""


class PassRecorder:
    """An observer that notes what each step did, as lines, and keeps the graphs between levels.

    Attributes:
        rows: A row for each step that ran.
        optimized: The graph before it was lowered; None if it was not.
        before_plans: The graph whose products are given plans next; None if there are none.
    """

    def __init__(
        self, room: Room, does: Mapping[str, str] | None = None, planner: str = ""
    ) -> None:
        """Note steps as far as there is *room* for what they changed.

        *does* says what each does, and *planner* is the step that chooses plans.
        """
        self.rows: list[PassRow] = []
        self.optimized: Function | None = None
        self.before_plans: Function | None = None
        self._does = {**DESCRIPTIONS, **(does or {})}
        self._planner = planner
        self._texts: dict[Node | Instruction, str] = {}  # of the last state
        self._room = room

    def __call__(self, run: PassRun, /) -> None:
        """Note *run*."""
        if run.name == "lower" and isinstance(run.before, Function):
            self.optimized = run.before
        if run.name == self._planner and isinstance(run.before, Function):
            self.before_plans = run.before
        self.rows.append(self._row(run))

    def _row(self, run: PassRun) -> PassRow:
        level = "program" if isinstance(run.after, Program) else "graph"
        count = len(run.after.work if isinstance(run.after, Program) else run.after.nodes)
        does = self._does.get(run.name, "")
        if not run.changed:
            return PassRow(run.name, level, run.seconds, False, items=count, does=does)
        if type(run.before) is not type(run.after):
            made = (f"@ {run.after!r}, made of a graph of {len(run.before.nodes)} nodes",)
            return PassRow(run.name, level, run.seconds, True, items=count, does=does, lines=made)
        lines = self._difference(run.before, run.after)
        return PassRow(
            name=run.name,
            level=level,
            seconds=run.seconds,
            changed=True,
            removed=sum(line.startswith("-") for line in lines),
            added=sum(line.startswith("+") for line in lines),
            constants=_constants(run.after) - _constants(run.before),
            items=count,
            does=does,
            lines=self._kept(lines),
        )

    def _difference(self, before: Any, after: Any) -> list[str]:
        old, new = self._lines(before), self._lines(after)
        return unified(old, new)

    def _lines(self, ir: Function | Program) -> list[str]:
        """Return the lines of *ir*; what was there in the last state is not printed anew."""
        texts = {one: self._texts.get(one) or _text(one, ir) for one in ir}
        self._texts = texts
        if isinstance(ir, Program):  # where activations lie is not said by the instruction
            texts = {
                one: _text(one, ir) if isinstance(one, Alloc) else text
                for one, text in texts.items()
            }
        return [line for text in texts.values() for line in text.splitlines()]

    def _kept(self, lines: list[str]) -> tuple[str, ...]:
        """Return *lines* as far as there is room for them."""
        short = [cut(line, LONGEST_LINE).replace("\n", " ") for line in lines[:MOST_LINES]]
        if len(lines) > MOST_LINES:
            short.append(f"@ {len(lines) - MOST_LINES} more lines are left out")
        return self._room.difference(short)


def _text(one: Node | Instruction, ir: Function | Program) -> str:
    if isinstance(one, Node):
        return print_node(one)
    return print_instruction(one, ir.arena if isinstance(ir, Program) else None)


def _constants(ir: Function | Program) -> int:
    return len(ir.weights if isinstance(ir, Program) else ir.constants)
