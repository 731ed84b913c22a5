"""A plan as a picture: one request on its path through the devices, and their memory.

Each device is a row, and time goes to the right. Each part has a hatched bar, while its device
receives and sends tensors, and a full one with its number, while its kernels run. An arrow is
what goes from one device to another, with its bytes where there is room for them. On the right is
the memory of each device, as a share of its limit. All bytes of the arrows have one unit, and so
have those of the memory.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from glow_nb.base.quantities import count_of
from glow_nb.base.text import format_name
from glow_nb.network.pictures.style import (
    BLUE,
    FAINT,
    GREEN,
    INK,
    SUBTITLE,
    YELLOW,
    byte_unit,
    frame,
    ink_on,
    own_style,
    three_digits,
    time_unit,
)
from glow_nb.runtime.planning.partitioning import Partitioning
from glow_nb.runtime.planning.timing import TimedPart, begins_of, memory_bytes, timed_parts
from glow_nb.system.replaced_files import replace_file

MOST_ROWS = 40
"""The most devices that are drawn; those without a part are left out first."""

MOST_ARROWS = 60
"""The most arrows that are drawn: those of most bytes."""

LEFT, RIGHT = 0.17, 0.885
"""Where the bars begin and end, as shares of the picture: before, 16 wide letters find room, and
behind, the memory in numbers."""

LABEL_WIDTH, NUMBER_WIDTH = 0.09, 0.02
"""Widths of the bytes of an arrow and of the number of a part, as shares of the time that is drawn:
what finds no room is not written."""

KERNELS, WEIGHTS, RUNS = BLUE, GREEN, YELLOW
TRANSFERS: dict[str, Any] = {"facecolor": "white", "edgecolor": FAINT, "hatch": "/////"}
ABOVE, BELOW = 1.45, 0.65
"""Inches for title and legend, and for the names of the axes."""


def draw_partitioning(plan: Partitioning, path: Path, title: str = "") -> None:
    """Draw *plan* to the PNG file *path*; raise GlowError if it cannot be written."""
    with own_style():
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
    height = ABOVE + BELOW + 0.55 * len(rows)
    figure = Figure(figsize=(13, height))
    FigureCanvasAgg(figure)
    times, sizes = figure.subplots(1, 2, width_ratios=(3, 1), sharey=True)
    figure.subplots_adjust(
        left=LEFT, right=RIGHT, top=1 - ABOVE / height, bottom=BELOW / height, wspace=0.05
    )
    _draw_times(times, plan, rows)
    _draw_memory(sizes, plan, rows)
    times.set_yticks(range(len(rows)), [short_name(name) for name in rows], fontsize=9)
    times.set_ylim(len(rows) - 0.45, -0.55)
    _write_title(figure, plan, title, len(plan.devices) - len(rows))
    return figure


def _write_title(figure: Figure, plan: Partitioning, title: str, left_out: int) -> None:
    height = figure.get_figheight()
    devices = count_of(len(plan.devices), "device")
    figure.text(
        LEFT, 1 - 0.35 / height, title or f"{format_name(plan.name)} on {devices}",
        fontsize=15, fontweight="bold", va="center",
    )  # fmt: skip
    words = f"; {count_of(left_out, 'device')} without a row here" if left_out else ""
    figure.text(
        LEFT, 1 - 0.68 / height, f"Planned {plan}{words}", fontsize=10, color=SUBTITLE, va="center"
    )


def _draw_legend(axes: Axes, handles: list[Any]) -> None:
    """Name the marks of *axes* in one row above it."""
    axes.legend(
        handles=handles, loc="lower left", bbox_to_anchor=(-0.005, 1.0), ncols=len(handles),
        frameon=False, fontsize=9, handlelength=1.6, columnspacing=1.6, borderaxespad=0.3,
    )  # fmt: skip


def _draw_times(axes: Axes, plan: Partitioning, rows: list[str]) -> None:
    """Draw when each device receives, computes and sends for one request."""
    row = {name: number for number, name in enumerate(rows)}
    parts = timed_parts(plan)
    begins = begins_of(parts)
    drawn = [timed for timed in parts if timed.part.device in row]
    seconds = max((begins[timed.part.name] + timed.seconds for timed in drawn), default=0.0)
    name, unit = time_unit(seconds)
    for timed in drawn:
        y, begin = row[timed.part.device], begins[timed.part.name] / unit
        worked = timed.part.seconds / unit
        moved = timed.seconds / unit - worked
        axes.barh(y, moved, left=begin, height=0.5, linewidth=0.5, zorder=2, **TRANSFERS)
        begin += moved
        axes.barh(y, worked, left=begin, height=0.5, color=KERNELS, edgecolor="white", zorder=2)
        if worked > NUMBER_WIDTH * seconds / unit:
            number = timed.part.name.rpartition(".")[2]
            axes.text(
                begin + worked / 2, y, format_name(number), fontsize=8, color=ink_on(KERNELS),
                ha="center", va="center", zorder=4, clip_on=True,
            )  # fmt: skip
    has_arrows = _draw_arrows(axes, drawn, begins, row, unit)
    _style(axes, f"time of one request, {name}")
    axes.set_xlim(0, 1.04 * seconds / unit if seconds else 1)
    arrow = Line2D([], [], color=INK, linewidth=0.8, marker=">", markersize=4, label="")
    arrow.set_label("tensors to another device")
    handles = [
        Patch(facecolor=KERNELS, label="kernels run (with the number of the part)"),
        Patch(**TRANSFERS, linewidth=0.5, label="device receives or sends"),
        *([arrow] if has_arrows else []),
    ]
    _draw_legend(axes, handles)


def _draw_arrows(
    axes: Axes, parts: list[TimedPart], begins: dict[str, float], row: dict[str, int], unit: float
) -> bool:
    """Draw what goes from device to device; return whether anything does."""
    ends = {s.part.name: (begins[s.part.name] + s.seconds) / unit for s in parts}
    arrows: list[tuple[int, Any, Any]] = []
    for timed in parts:
        for name in timed.needs:
            source = next((s for s in parts if s.part.name == name), None)
            if source is None or source.part.device == timed.part.device:
                continue
            made = {output for output, _ in source.part.outputs}
            size = sum(t.size_bytes for t in timed.transfers if t.name in made)
            start = (ends[name], row[source.part.device])
            target = begins[timed.part.name] / unit
            arrows.append((size, start, (target, row[timed.part.device])))
    width = LABEL_WIDTH * max(ends.values(), default=0.0)
    bytes_in = byte_unit(size for size, _, _ in arrows)
    written: list[tuple[float, float]] = []
    for size, start, end in sorted(arrows, key=lambda arrow: -arrow[0])[:MOST_ARROWS]:
        style = {"arrowstyle": "->", "color": INK, "linewidth": 0.8}
        axes.annotate("", end, start, arrowprops=style, zorder=3)
        place = _beside_target(start, end)
        if all(place[1] != y or abs(place[0] - x) > width for x, y in written):
            written.append(place)
            axes.annotate(
                f"{three_digits(size / bytes_in.size)} {bytes_in.name}", place, xytext=(4, 0),
                textcoords="offset points", fontsize=7.5, va="center", zorder=4,
            )  # fmt: skip
    return bool(arrows)


def _beside_target(start: tuple[float, int], end: tuple[float, int]) -> tuple[float, float]:
    """Return the point of an arrow in the gap between the row of its target and the next one."""
    y = end[1] - 0.5 if end[1] > start[1] else end[1] + 0.5
    share = (y - start[1]) / (end[1] - start[1])
    return start[0] + share * (end[0] - start[0]), y


def _draw_memory(axes: Axes, plan: Partitioning, rows: list[str]) -> None:
    """Draw the memory that each device uses as a share of its limit, and write both numbers."""
    used = memory_bytes(plan)
    name, unit = byte_unit(used[device] for device in rows)
    for y, device in enumerate(rows):
        limit = plan.devices[device].memory_bytes
        kept = sum(part.constant_bytes for part in plan.parts if part.device == device)
        shares = 100 * kept / limit, 100 * (used[device] - kept) / limit
        axes.barh(y, 100, height=0.5, color="white", edgecolor=FAINT, linewidth=0.8, zorder=1)
        axes.barh(y, shares[0], height=0.5, color=WEIGHTS, zorder=2)
        axes.barh(y, shares[1], left=shares[0], height=0.5, color=RUNS, zorder=2)
        axes.text(
            1.03, y, f"{used[device] / unit:,.2f}\nof {limit / unit:,.0f} {name}",
            transform=axes.get_yaxis_transform(), fontsize=8, va="center",
        )  # fmt: skip
    axes.tick_params(axis="y", left=False, labelleft=False)
    _style(axes, f"memory, % of the limit; in {name} beside it")
    axes.set_xlim(0, 100.5)
    _draw_legend(
        axes,
        [
            Patch(facecolor=WEIGHTS, label="weights and states"),
            Patch(facecolor=RUNS, label="memory of a run"),
        ],
    )


def _style(axes: Axes, label: str) -> None:
    frame(axes, ("bottom",))
    axes.set_xlabel(label, fontsize=9)
    axes.grid(axis="x", color="white", linewidth=1.2)


def short_name(name: str) -> str:
    """Return *name* in at most 16 letters; its end stays, where devices of a kind differ."""
    text = format_name(name)
    return text if len(text) <= 16 else f"{text[:8]}…{text[-7:]}"
