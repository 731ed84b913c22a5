"""Replacing buffers in instructions, also those that views refer to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from glow_nb.base.schema import map_operands
from glow_nb.llir.program import Buffer, Instruction, View


def substitute(
    instructions: Iterable[Instruction], replaced: Mapping[Buffer, Buffer]
) -> tuple[Instruction, ...]:
    """Return *instructions* with each key of *replaced* replaced by its value, also below views."""
    moved: dict[Buffer, Buffer] = dict(replaced)

    def place(buffer: Buffer) -> Buffer:
        views: list[View] = []
        below = buffer
        while below not in moved and isinstance(below, View):
            views.append(below)
            below = below.base
        base = moved.setdefault(below, below)
        for view in reversed(views):
            base = moved[view] = _on(view, base)
        return base

    return tuple(map_operands(instruction, place) for instruction in instructions)


def _on(view: View, base: Buffer) -> View:
    """Return *view* upon *base*, itself if that is where it was."""
    if base is view.base:
        return view
    return View(view.name, view.type, base, view.start, view.steps)
