"""A plan as a picture: one request on its path through the devices, and their memory.

Each device is a row, and time goes to the right. Each part has a grey bar, while its device
receives and sends tensors, and a coloured one with its number, while its kernels run. An arrow is
what goes from one device to another, with its bytes where there is room for them. On the right is
the memory of each device, as a share of its limit.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from glow_nb.base.text import format_name
from glow_nb.network.pictures.memory_map import BACKGROUND, FAINT, INK, PALETTE, REST
from glow_nb.runtime.planning.partitioning import Partitioning
from glow_nb.runtime.planning.timing import TimedPart, begins_of, memory_bytes, timed_parts
from glow_nb.system.replaced_files import replace_file

MOST_ROWS = 40
"""The most devices that are drawn; those without a part are left out first."""

MOST_ARROWS = 60
"""The most arrows that are drawn: those of most bytes."""

LEFT = 0.17
"""Where the bars begin, as a share of the picture: 16 wide letters find room before that."""

LABEL_WIDTH, NUMBER_WIDTH = 0.09, 0.02
"""Widths of the bytes of an arrow and of the number of a part, as shares of the time that is drawn:
what finds no room is not written."""


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
        left=LEFT, right=0.89, top=1 - 1.1 / height, bottom=0.65 / height, wspace=0.04
    )
    _draw_times(times, plan, rows)
    _draw_memory(sizes, plan, rows)
    times.set_yticks(range(len(rows)), [short_name(name) for name in rows], fontsize=9)
    times.set_ylim(len(rows) - 0.45, -0.55)
    left_out = len(plan.devices) - len(rows)
    title = title or f"{format_name(plan.name)} on {len(plan.devices)} devices"
    figure.text(
        LEFT, 1 - 0.35 / height, title,
        fontsize=15, fontweight="bold", va="center",
    )  # fmt: skip
    words = f"{left_out} devices are left out; " if left_out else ""
    figure.text(LEFT, 1 - 0.72 / height, f"{words}{plan}", fontsize=10, color=FAINT, va="center")
    return figure


def _draw_times(axes: Axes, plan: Partitioning, rows: list[str]) -> None:
    """Draw when each device receives, computes and sends for one request."""
    row = {name: number for number, name in enumerate(rows)}
    parts = timed_parts(plan)
    begins = begins_of(parts)
    drawn = [timed for timed in parts if timed.part.device in row]
    span = max((begins[timed.part.name] + timed.seconds for timed in drawn), default=0.0) * 1e3
    for index, timed in enumerate(drawn):
        y, begin = row[timed.part.device], begins[timed.part.name] * 1e3
        worked = timed.part.seconds * 1e3
        moved = timed.seconds * 1e3 - worked
        axes.barh(y, moved, left=begin, height=0.5, color=REST, zorder=2)
        begin += moved
        colour = PALETTE[index % len(PALETTE)]
        axes.barh(y, worked, left=begin, height=0.5, color=colour, zorder=2)
        if worked > NUMBER_WIDTH * span:
            number = timed.part.name.rpartition(".")[2]
            axes.text(
                begin + worked / 2, y, format_name(number),
                fontsize=8, color="white", ha="center", va="center", zorder=4, clip_on=True,
            )  # fmt: skip
    _draw_arrows(axes, drawn, begins, row)
    _style(axes, "time of one request, ms; grey: transfers; in a bar: the number of the part")


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
    width = LABEL_WIDTH * max(ends.values(), default=0.0)
    written: list[tuple[float, float]] = []
    for size, start, end in sorted(arrows, key=lambda arrow: -arrow[0])[:MOST_ARROWS]:
        style = {"arrowstyle": "->", "color": INK, "linewidth": 0.8}
        axes.annotate("", end, start, arrowprops=style, zorder=3)
        place = _beside_target(start, end)
        if all(place[1] != y or abs(place[0] - x) > width for x, y in written):
            written.append(place)
            axes.annotate(
                short_bytes(size), place, xytext=(4, 0), textcoords="offset points",
                fontsize=7.5, va="center", zorder=4,
            )  # fmt: skip


def _beside_target(start: tuple[float, int], end: tuple[float, int]) -> tuple[float, float]:
    """Return the point of an arrow in the gap between the row of its target and the next one."""
    y = end[1] - 0.5 if end[1] > start[1] else end[1] + 0.5
    share = (y - start[1]) / (end[1] - start[1])
    return start[0] + share * (end[0] - start[0]), y


def _draw_memory(axes: Axes, plan: Partitioning, rows: list[str]) -> None:
    """Draw the memory that each device uses as a share of its limit, and write both numbers."""
    used = memory_bytes(plan)
    for y, name in enumerate(rows):
        limit = plan.devices[name].memory_bytes
        kept = sum(part.constant_bytes for part in plan.parts if part.device == name)
        shares = 100 * kept / limit, 100 * (used[name] - kept) / limit
        axes.barh(y, 100, height=0.5, color="white", edgecolor=FAINT, linewidth=0.8, zorder=1)
        axes.barh(y, shares[0], height=0.5, color=PALETTE[0], zorder=2)
        axes.barh(y, shares[1], left=shares[0], height=0.5, color=PALETTE[1], zorder=2)
        axes.text(
            1.03, y, f"{short_bytes(used[name])}\nof {short_bytes(limit)}",
            transform=axes.get_yaxis_transform(), fontsize=8, va="center",
        )  # fmt: skip
    axes.tick_params(axis="y", left=False, labelleft=False)
    _style(axes, "memory, % of the limit; blue: weights, orange: runs")
    axes.set_xlim(0, 100.5)


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


def short_bytes(size: int) -> str:
    """Return *size* with the unit that suits it, and three digits where that is enough."""
    amount, unit = size / 1024, "KiB"
    for larger in ("MiB", "GiB", "TiB"):
        if amount < 100:
            break
        amount, unit = amount / 1024, larger
    return f"{amount:.3g} {unit}"


def short_name(name: str) -> str:
    """Return *name* in at most 16 letters; its end stays, where devices of a kind differ."""
    text = format_name(name)
    return text if len(text) <= 16 else f"{text[:8]}…{text[-7:]}"
