"""A plan as a picture: one request on its way through the devices, and their memory.

Each device is a row. To the right goes the time of one request: a bar for what its device takes in
and hands out, and one for the kernels of each part. An arrow is what goes from part to part, with
its bytes. Beside it stands what each device holds, and how much it may hold.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from glow_nb.files import replace_file
from glow_nb.plots.memory_map import BACKGROUND, FAINT, INK, MEBIBYTE, PALETTE, REST
from glow_nb.runtime.planning.partitioning import Partitioning
from glow_nb.runtime.planning.timing import TimedPart, begins_of, memory_bytes, timed_parts
from glow_nb.text import format_name

MOST_ROWS = 40
"""Devices that are drawn; those without a part go first."""

MOST_ARROWS = 60
"""Arrows that are drawn, those of most bytes."""


def draw_partitioning(plan: Partitioning, path: Path, title: str = "") -> None:
    """Draw *plan* to the PNG file *path*; raise GlowError if it cannot be written."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()  # the picture is the same whatever the user's own settings are
        matplotlib.rcParams["text.color"] = INK
        matplotlib.rcParams["text.parse_math"] = False  # a name may hold dollar signs
        figure = _make_figure(plan, title)
        replace_file(path, lambda place: figure.savefig(place, format="png", dpi=160))


def rows_of(plan: Partitioning) -> list[str]:
    """Return the devices that are drawn, in order."""
    used = {part.device for part in plan.parts}
    first = [name for name in plan.devices if name in used]
    others = [name for name in plan.devices if name not in used]
    kept = set((first + others)[:MOST_ROWS])
    return [name for name in plan.devices if name in kept]


def _make_figure(plan: Partitioning, title: str) -> Figure:
    rows = rows_of(plan)
    figure = Figure(figsize=(13, 2.2 + 0.55 * len(rows)))
    FigureCanvasAgg(figure)
    times, sizes = figure.subplots(1, 2, width_ratios=(3, 1), sharey=True)
    height = figure.get_figheight()
    figure.subplots_adjust(
        left=0.1, right=0.97, top=1 - 1.1 / height, bottom=0.65 / height, wspace=0.04
    )
    _draw_times(times, plan, rows)
    _draw_memory(sizes, plan, rows)
    times.set_yticks(range(len(rows)), [_short(name) for name in rows])
    times.set_ylim(len(rows) - 0.45, -0.55)
    left_out = len(plan.devices) - len(rows)
    figure.text(
        0.1, 1 - 0.35 / height, title or f"{format_name(plan.name)} on {len(plan.devices)} devices",
        fontsize=15, fontweight="bold", va="center",
    )  # fmt: skip
    words = f"{left_out} devices are left out; " if left_out else ""
    figure.text(0.1, 1 - 0.72 / height, f"{words}{plan}", fontsize=10, color=FAINT, va="center")
    return figure


def _draw_times(axes: Axes, plan: Partitioning, rows: list[str]) -> None:
    """Draw when each device takes in, computes and hands out for one request."""
    row = {name: number for number, name in enumerate(rows)}
    parts = timed_parts(plan)
    begins = begins_of(parts)
    drawn = [timed for timed in parts if timed.part.device in row]
    for index, timed in enumerate(drawn):
        y, begin = row[timed.part.device], begins[timed.part.name] * 1e3
        moved = (timed.seconds - timed.part.seconds) * 1e3
        colour = PALETTE[index % len(PALETTE)]
        axes.barh(y, moved, left=begin, height=0.5, color=REST, zorder=2)
        axes.barh(
            y, timed.part.seconds * 1e3, left=begin + moved, height=0.5, color=colour, zorder=2
        )
    _draw_arrows(axes, drawn, begins, row)
    _style(axes, "time of one request, ms; grey: transfers")


def _draw_arrows(
    axes: Axes, parts: list[TimedPart], begins: dict[str, float], row: dict[str, int]
) -> None:
    ends = {s.part.name: (begins[s.part.name] + s.seconds) * 1e3 for s in parts}
    arrows: list[tuple[int, Any, Any]] = []
    for timed in parts:
        for name in timed.needs:
            source = next((s for s in parts if s.part.name == name), None)
            if source is None or source.part.device == timed.part.device:
                continue
            made = {output for output, _ in source.part.outputs}
            size = sum(t.size_bytes for t in timed.transfers if t.name in made)
            start = (ends[name], row[source.part.device])
            arrows.append((size, start, (begins[timed.part.name] * 1e3, row[timed.part.device])))
    for size, start, end in sorted(arrows, key=lambda arrow: -arrow[0])[:MOST_ARROWS]:
        style = {"arrowstyle": "->", "color": INK, "linewidth": 0.8}
        axes.annotate("", end, start, arrowprops=style, zorder=3)
        middle = ((start[0] + end[0]) / 2, (start[1] + end[1]) / 2)
        axes.annotate(
            _bytes(size), middle, xytext=(4, 0), textcoords="offset points",
            fontsize=7.5, va="center", zorder=4,
        )  # fmt: skip


def _draw_memory(axes: Axes, plan: Partitioning, rows: list[str]) -> None:
    """Draw what each device holds beside what it may hold."""
    used = memory_bytes(plan)
    for y, name in enumerate(rows):
        room = plan.devices[name].memory_bytes / MEBIBYTE
        axes.barh(y, room, height=0.5, color="white", edgecolor=FAINT, linewidth=0.8, zorder=1)
        kept = sum(part.constant_bytes for part in plan.parts if part.device == name) / MEBIBYTE
        axes.barh(y, kept, height=0.5, color=PALETTE[0], zorder=2)
        axes.barh(
            y, used[name] / MEBIBYTE - kept, left=kept, height=0.5, color=PALETTE[1], zorder=2
        )
    axes.tick_params(axis="y", left=False, labelleft=False)
    _style(axes, "MiB; blue: weights, orange: runs, frame: limit")


def _style(axes: Axes, label: str) -> None:
    axes.set_facecolor(BACKGROUND)
    axes.set_xlabel(label, fontsize=9)
    axes.set_xlim(left=0)
    axes.grid(axis="x", color="white", linewidth=1.2)
    axes.set_axisbelow(True)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(FAINT)
    axes.tick_params(which="both", color=FAINT, labelsize=9)


def _bytes(size: int) -> str:
    return f"{size / MEBIBYTE:.3g} MiB" if size >= MEBIBYTE / 10 else f"{size / 1024:.3g} KiB"


def _short(name: str) -> str:
    text = format_name(name)
    return text if len(text) <= 16 else f"{text[:15]}…"
