"""Labels beside dots: each where it covers no other label, no dot, and nothing else that is taken.

The most important dot comes first. It takes the place nearest to it that is free; if all of them
are far, a thin line leads from the dot to its label. A dot that finds no place has no label.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.path import Path
from matplotlib.text import Annotation
from matplotlib.transforms import Bbox

LABEL_GAP = 3
"""Pixels around a label that stay free of others."""

NEAR = ((6, 0), (-6, 0), (0, 9), (0, -9), (6, 9), (6, -9), (-6, 9), (-6, -9))
"""Places right beside a dot, the most wanted first: points to the right, points up."""

FAR = tuple(
    (distance * float(np.sin(angle)), -distance * float(np.cos(angle)))
    for distance in (22, 34, 48, 64, 82, 102, 124, 148)
    for angle in np.radians((0, 15, -15, 30, -30, 45, -45, 60, -60))
)
"""Places that need a line, all of them below the dot: above it a limit may be drawn."""


@dataclass(frozen=True)
class Dot:
    """A dot that wants a label: its place in the data, its radius in points, and the text."""

    x: float
    y: float
    radius: float
    text: str


def write_labels(
    axes: Axes,
    dots: Sequence[Dot],
    taken: Sequence[Bbox],
    most: int,
    lines: Sequence[Path] = (),
    **style: Any,
) -> int:
    """Label up to *most* of *dots*, the first ones first; return how many found a place.

    Args:
        axes: Where the dots are drawn already; its limits must not change any more.
        dots: All dots, also those that will have no label: none of them is covered.
        taken: Boxes in pixels that must stay free as well.
        most: Labels to write at most.
        lines: Lines in pixels that no label covers; the line from a label to its dot may cross
            them.
        style: The style of text for ``axes.annotate``: size, colour, effects.
    """
    placer = _Placer(axes, dots, list(taken), lines, style)
    return sum(placer.place(dot) for dot in dots[:most])


class _Placer:
    """Keeps what is taken while labels find their places."""

    def __init__(
        self,
        axes: Axes,
        dots: Sequence[Dot],
        taken: list[Bbox],
        drawn: Sequence[Path],
        style: dict[str, Any],
    ) -> None:
        figure: Any = axes.figure
        self._axes, self._style, self._taken = axes, style, taken
        self._drawn, self._lines = drawn, list[Path]()
        self._renderer = figure.canvas.get_renderer()
        self._inside = axes.get_window_extent(self._renderer)
        self._pixels = figure.dpi / 72
        for dot in dots:
            x, y = axes.transData.transform((dot.x, dot.y))
            radius = dot.radius * self._pixels
            self._taken.append(Bbox([[x - radius, y - radius], [x + radius, y + radius]]))

    def place(self, dot: Dot) -> bool:
        """Write the label of *dot* at the first place that is free; False if there is none."""
        for right, up, has_line in _places(dot.radius):
            label = self._write(dot, right, up)
            extent = label.get_window_extent(self._renderer).padded(LABEL_GAP)
            line = self._line(dot, right, up) if has_line else None
            if self._is_free(extent) and self._crosses_nothing(line):
                self._taken.append(extent)
                if line is not None:
                    self._lines.append(line)
                    self._draw_line(dot, right, up)
                return True
            label.remove()
        return False

    def _line(self, dot: Dot, right: float, up: float) -> Path:
        """Return the line from the label to the edge of the dot, in pixels."""
        centre = np.array(self._axes.transData.transform((dot.x, dot.y)))
        away = np.array([right, up]) * self._pixels
        edge = away / np.hypot(*away) * (dot.radius + 1) * self._pixels
        return Path([centre + edge, centre + away])

    def _crosses_nothing(self, line: Path | None) -> bool:
        """Return whether *line* meets no label, no dot and no other line."""
        if line is None:
            return True
        boxes = any(line.intersects_bbox(box, filled=False) for box in self._taken)
        return not boxes and not any(line.intersects_path(other) for other in self._lines)

    def _write(self, dot: Dot, right: float, up: float) -> Annotation:
        side = "center" if abs(right) < 1 else "left" if right > 0 else "right"
        return self._axes.annotate(
            dot.text,
            (dot.x, dot.y),
            xytext=(right, up),
            textcoords="offset points",
            ha=side,
            va="center" if abs(up) < 1 else "bottom" if up > 0 else "top",
            zorder=4,
            **self._style,
        )

    def _is_free(self, extent: Bbox) -> bool:
        corners = ((extent.x0, extent.y0), (extent.x1, extent.y1))
        within = all(self._inside.contains(x, y) for x, y in corners)
        lines = (*self._drawn, *self._lines)
        return (
            within
            and not any(extent.overlaps(other) for other in self._taken)
            and not any(line.intersects_bbox(extent, filled=False) for line in lines)
        )

    def _draw_line(self, dot: Dot, right: float, up: float) -> None:
        self._axes.annotate(
            "",
            (dot.x, dot.y),
            xytext=(right, up),
            textcoords="offset points",
            arrowprops={"arrowstyle": "-", "linewidth": 0.5, "color": "#6a6e75", "shrinkB": 0},
            zorder=2.5,
        )


def _places(radius: float) -> Iterator[tuple[float, float, bool]]:
    """Yield points to the right, points up, and whether a line must lead there."""
    for right, up in NEAR:
        scale = 1 + radius / float(np.hypot(right, up))
        yield right * scale, up * scale, False
    yield from ((right, up, True) for right, up in FAR)
