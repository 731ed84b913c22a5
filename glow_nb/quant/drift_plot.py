"""A picture of the error and speedup of lower precision: the worst values, times of layers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure, SubFigure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from glow_nb.base.quantities import count_of
from glow_nb.base.text import format_name
from glow_nb.network.pictures.style import BLUE, GREEN, INK, PURPLE, RED, SUBTITLE, frame, own_style
from glow_nb.quant.gain import Gains, LayerGain
from glow_nb.quant.value_drift import DriftValues, ValueDrift
from glow_nb.system.replaced_files import replace_file

ROW_INCHES = 0.19
WORST_SHARE = 0.1
"""The part of the values that is drawn as the worst; at least one."""

MOST_DECIBELS = 100.0
"""Where the bar of a value without any difference ends."""

LONGEST_NAME = 40
USUAL, BAD, OUTPUT, SATURATED, GAIN = BLUE, RED, INK, PURPLE, GREEN
PREDICTED: dict[str, Any] = {
    "marker": "D",
    "color": INK,
    "markeredgecolor": "white",
    "markersize": 6,
}


def draw_drift(drift: DriftValues, path: Path) -> None:
    """Draw a bar for each value of *drift*, in the order of the network, to the PNG file *path*.

    On the left is signal-to-noise ratio; the worst values have a colour of their own, and so have
    the outputs. Beside it is the share of numbers that are beyond the integers, where there are
    any. If times were measured, the gains of the layers are on the right.
    """
    with own_style():
        figure = _figure(drift)
        replace_file(path, lambda place: figure.savefig(place, format="png", dpi=110))


def _figure(drift: DriftValues) -> Figure:
    rows = len(drift.values) + len(drift.outputs)
    gains = drift.gains
    layers = 0 if gains is None else len(_timed(gains))
    width = 10 if gains is None else 17
    figure = Figure(figsize=(width, 2.2 + ROW_INCHES * max(rows, layers)), layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(_title(drift), fontsize=12, fontweight="bold", x=0.01, ha="left")
    if gains is None:
        _draw_values(figure, drift)
    else:
        halves: Any = figure.subfigures(1, 2, width_ratios=(10, 7))
        _draw_values(halves[0], drift)
        _draw_gains(halves[1].subplots(), gains)
    return figure


def _draw_values(figure: Figure | SubFigure, drift: DriftValues) -> None:
    rows = (*drift.values, *drift.outputs)
    has_saturated = any(row.saturated for row in rows)
    widths = (3, 1) if has_saturated else (1,)
    panels = figure.subplots(1, len(widths), sharey=True, width_ratios=widths, squeeze=False)[0]
    worst = drift.worst(math.ceil(WORST_SHARE * len(drift.values)))
    colours = [OUTPUT if row in drift.outputs else BAD if row in worst else USUAL for row in rows]
    panels[0].barh(range(len(rows)), [_length(row) for row in rows], color=colours)
    _name_rows(panels[0], [f"{_short(format_name(row.name))} ({row.opcode})" for row in rows])
    panels[0].set_xlabel("signal to noise, dB (more is better)")
    _draw_legend(panels[0], _meanings(drift, len(worst), has_saturated))
    if has_saturated:
        shares = [100 * row.saturated for row in rows]
        panels[1].barh(range(len(rows)), shares, color=SATURATED)
        panels[1].set_xlabel("saturated numbers, %")
        panels[1].set_xlim(0, 1.05 * max(shares))
        _clear(panels[1])


def _meanings(drift: DriftValues, worst: int, has_saturated: bool) -> list[Patch]:
    """Return the rows of the legend: what each colour means, and what is not drawn."""
    counts = (
        (BAD, worst, f"the worst {worst} of {len(drift.values)} values"),
        (USUAL, len(drift.values) - worst, count_of(len(drift.values) - worst, "other value")),
        (OUTPUT, len(drift.outputs), count_of(len(drift.outputs), "output")),
        ("none", not has_saturated, "no number is saturated"),
    )
    return [Patch(color=colour, label=label) for colour, count, label in counts if count]


def _draw_gains(axes: Any, gains: Gains) -> None:
    """Draw, layer by layer, how many times as long floats take: measured and predicted."""
    layers = _timed(gains)
    places = range(len(layers))
    is_measured = gains.measured is not None
    if is_measured:
        measured = [0.0 if layer.measured is None else layer.measured.gain for layer in layers]
        axes.barh(places, measured, color=GAIN)
    predicted = [layer.predicted.gain for layer in layers]
    axes.plot(predicted, places, linestyle="", **PREDICTED)
    axes.axvline(1, color=SUBTITLE, lw=1.2, linestyle=(0, (4, 3)))
    _name_rows(axes, [_short(format_name(layer.names[0])) for layer in layers])
    axes.set_xlim(left=0)
    axes.set_xlabel("time of the float layer over that of the quantized one")
    handles: list[Any] = [
        *([Patch(color=GAIN, label="measured")] if is_measured else []),
        Line2D([], [], linestyle="", **PREDICTED, label="predicted"),
        Line2D([], [], color=SUBTITLE, lw=1.2, linestyle=(0, (4, 3)), label="as fast as floats"),
    ]
    _draw_legend(axes, handles)


def _draw_legend(axes: Any, handles: Sequence[Any]) -> None:
    """Name the marks of *axes* in one row above it."""
    axes.legend(
        handles=handles, loc="lower left", bbox_to_anchor=(0, 1), ncols=max(1, len(handles)),
        fontsize=9, frameon=False, borderaxespad=0.2, handlelength=1.2, columnspacing=1.4,
    )  # fmt: skip


def _timed(gains: Gains) -> list[LayerGain]:
    """Return the layers that both networks have; what only converts has no gain."""
    return [each for each in gains.layers if each.predicted.floats and each.predicted.integers]


def _name_rows(axes: Any, names: Sequence[str]) -> None:
    """Write *names* beside the rows, the first at the top."""
    axes.set_yticks(range(len(names)), names, fontsize=8)
    axes.set_ylim(max(len(names), 1) - 0.4, -0.6)
    _clear(axes)


def _title(drift: DriftValues) -> str:
    ends = ", ".join(
        f"{_short(format_name(output.name))} {output.signal_to_noise:.1f} dB"
        for output in drift.outputs[:3]
    )
    title = f"{_short(format_name(drift.model))}: values in lower precision against floats"
    if ends:
        title = f"{title}; outputs: {ends}"
    if drift.gains is None or drift.gains.measured is None:
        return title
    predicted, measured = drift.gains.predicted.gain, drift.gains.measured.gain
    return f"{title}; {measured:.2f} times as fast (predicted: {predicted:.2f})"


def _clear(axes: Any) -> None:
    frame(axes, ("bottom",), size=8)
    axes.grid(axis="x", color="white", linewidth=1.2)
    axes.tick_params(axis="y", length=0)


def _length(row: ValueDrift) -> float:
    if math.isnan(row.signal_to_noise):
        return 0.0
    return min(max(row.signal_to_noise, 0.0), MOST_DECIBELS)


def _short(text: str) -> str:
    return text if len(text) <= LONGEST_NAME else f"{text[: LONGEST_NAME - 1]}…"
