"""A picture of what integers lose and gain: the worst values at once, and the times of layers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure, SubFigure

from glow_nb.base.text import format_name
from glow_nb.quant.gain import Gains, LayerGain
from glow_nb.quant.value_drift import DriftValues, ValueDrift
from glow_nb.system.replaced_files import replace_file

ROW_INCHES = 0.19
WORST_SHARE = 0.1
"""The part of the values that is drawn as the worst; at least one."""

LEAST_PERCENT = 0.1
"""What the axis of saturated numbers shows at least."""

MOST_DECIBELS = 100.0
"""Where the bar of a value without any difference ends."""

LONGEST_NAME = 40
USUAL, BAD, SATURATED = "#7d9cb8", "#b3423a", "#d9a441"


def draw_drift(drift: DriftValues, path: Path) -> None:
    """Draw a bar for each value of *drift*, in the order of the network, to the PNG file *path*.

    On the left is signal to noise, in the middle the share of numbers that are beyond the integers;
    the worst values are red. If times were measured, the gains of the layers are on the right.
    """
    with matplotlib.rc_context():
        matplotlib.rcdefaults()  # the picture is the same whatever the user's own settings are
        matplotlib.rcParams["text.parse_math"] = False  # a name may hold dollar signs
        figure = _figure(drift)
        replace_file(path, lambda place: figure.savefig(place, format="png", dpi=110))


def _figure(drift: DriftValues) -> Figure:
    rows = len(drift.values) + len(drift.outputs)
    gains = drift.gains
    layers = 0 if gains is None else len(_timed(gains))
    width = 10 if gains is None else 17
    figure = Figure(figsize=(width, 1.6 + ROW_INCHES * max(rows, layers)), layout="constrained")
    FigureCanvasAgg(figure)
    if gains is None:
        _draw_values(figure, drift)
    else:
        halves: Any = figure.subfigures(1, 2, width_ratios=(10, 7))
        _draw_values(halves[0], drift)
        _draw_gains(halves[1].subplots(), gains)
    figure.suptitle(_title(drift), fontsize=11)
    return figure


def _draw_values(figure: Figure | SubFigure, drift: DriftValues) -> None:
    rows = (*drift.values, *drift.outputs)
    noise, saturation = figure.subplots(1, 2, sharey=True, width_ratios=(3, 1))
    places = range(len(rows))
    worst = drift.worst(math.ceil(WORST_SHARE * len(drift.values)))
    colours = [BAD if row in worst else USUAL for row in rows]
    noise.barh(places, [_length(row) for row in rows], color=colours)
    saturation.barh(places, [100 * row.saturated for row in rows], color=SATURATED)
    _name_rows(noise, [f"{_short(format_name(row.name))}  {row.opcode}" for row in rows])
    for label, row in zip(noise.get_yticklabels(), rows, strict=True):
        label.set_color(BAD if row in worst else "black")
    noise.set_xlabel("signal to noise, dB")
    saturation.set_xlabel("saturated, %")
    most = max((100 * row.saturated for row in rows), default=0.0)
    saturation.set_xlim(0, max(1.05 * most, LEAST_PERCENT))
    _clear(saturation)


def _draw_gains(axes: Any, gains: Gains) -> None:
    """Draw, layer by layer, how many times as long floats take: a bar measured, a dot predicted."""
    layers = _timed(gains)
    places = range(len(layers))
    measured = [0.0 if layer.measured is None else layer.measured.gain for layer in layers]
    axes.barh(places, measured, color=USUAL, label="measured")
    predicted = [layer.predicted.gain for layer in layers]
    axes.plot(predicted, places, "o", color=BAD, markersize=3.5, label="predicted")
    axes.axvline(1, color="#555555", lw=0.8)
    _name_rows(axes, [_short(format_name(layer.names[0])) for layer in layers])
    axes.set_xlabel("time of floats over that of integers, layer by layer")
    axes.legend(fontsize=8, loc="lower right", bbox_to_anchor=(1, 1), ncols=2)


def _timed(gains: Gains) -> list[LayerGain]:
    """Return the layers that both networks have; what only converts has no gain."""
    return [each for each in gains.layers if each.predicted.floats and each.predicted.integers]


def _name_rows(axes: Any, names: Sequence[str]) -> None:
    """Write *names* beside the rows, the first at the top."""
    axes.set_yticks(range(len(names)), names, fontsize=7)
    axes.invert_yaxis()
    _clear(axes)


def _title(drift: DriftValues) -> str:
    ends = ", ".join(
        f"{_short(format_name(output.name))} {output.signal_to_noise:.1f} dB"
        for output in drift.outputs[:3]
    )
    title = f"{_short(format_name(drift.model))}: integers against floats; outputs: {ends}"
    if drift.gains is None or drift.gains.measured is None:
        return title
    predicted, measured = drift.gains.predicted.gain, drift.gains.measured.gain
    return f"{title}; gain: {measured:.2f} measured, {predicted:.2f} predicted"


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
