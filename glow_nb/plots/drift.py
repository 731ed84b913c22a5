"""A picture of how far a network of integers is from the floats: the worst values at once."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from glow_nb.files import replace_file
from glow_nb.text import format_name

if TYPE_CHECKING:
    from glow_nb.quant.comparison import Drift, ValueDrift

ROW_INCHES = 0.19
WORST_SHARE = 0.1
"""Of the values, those that are drawn as the worst; at least one."""

LEAST_PERCENT = 0.1
"""What the axis of saturated numbers shows at least."""

MOST_DECIBELS = 100.0
"""Where the bar of a value without any difference ends."""

LONGEST_NAME = 40
USUAL, BAD, SATURATED = "#7d9cb8", "#b3423a", "#d9a441"


def draw_drift(drift: Drift, path: Path) -> None:
    """Draw a bar for each value of *drift*, in the order of the network, to the PNG file *path*.

    On the left is signal to noise, on the right the share of numbers that are beyond the integers;
    the worst values are red.
    """
    with matplotlib.rc_context():
        matplotlib.rcdefaults()  # the picture is the same whatever the user's own settings are
        matplotlib.rcParams["text.parse_math"] = False  # a name may hold dollar signs
        figure = _figure(drift)
        replace_file(path, lambda place: figure.savefig(place, format="png", dpi=110))


def _figure(drift: Drift) -> Figure:
    rows = (*drift.values, *drift.outputs)
    figure = Figure(figsize=(10, 1.6 + ROW_INCHES * len(rows)), layout="constrained")
    FigureCanvasAgg(figure)
    noise, saturation = figure.subplots(1, 2, sharey=True, width_ratios=(3, 1))
    places = range(len(rows))
    worst = drift.worst(math.ceil(WORST_SHARE * len(drift.values)))
    colours = [BAD if row in worst else USUAL for row in rows]
    noise.barh(places, [_length(row) for row in rows], color=colours)
    saturation.barh(places, [100 * row.saturated for row in rows], color=SATURATED)
    names = [f"{_short(format_name(row.name))}  {row.opcode}" for row in rows]
    noise.set_yticks(places, names, fontsize=7)
    for label, row in zip(noise.get_yticklabels(), rows, strict=True):
        label.set_color(BAD if row in worst else "black")
    noise.invert_yaxis()
    noise.set_xlabel("signal to noise, dB")
    saturation.set_xlabel("saturated, %")
    most = max((100 * row.saturated for row in rows), default=0.0)
    saturation.set_xlim(0, max(1.05 * most, LEAST_PERCENT))
    figure.suptitle(_title(drift), fontsize=11)
    for axes in (noise, saturation):
        _clear(axes)
    return figure


def _title(drift: Drift) -> str:
    ends = ", ".join(
        f"{_short(format_name(output.name))} {output.signal_to_noise:.1f} dB"
        for output in drift.outputs[:3]
    )
    return f"{_short(format_name(drift.model))}: integers against floats; outputs: {ends}"


def _clear(axes: Any) -> None:
    axes.grid(axis="x", color="#e4e4e4")
    axes.set_axisbelow(True)
    axes.margins(y=0.01)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)


def _length(row: ValueDrift) -> float:
    if math.isnan(row.signal_to_noise):
        return 0.0
    return min(max(row.signal_to_noise, 0.0), MOST_DECIBELS)


def _short(text: str) -> str:
    return text if len(text) <= LONGEST_NAME else f"{text[: LONGEST_NAME - 1]}…"
