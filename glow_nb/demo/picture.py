"""The picture of what was read: digits, and how probable each of the ten digits was (SVG)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from glow_nb.base.types import Array
from glow_nb.demo.handwriting import SIDE, Handwriting, Reading

COLUMNS = 8
CELL_WIDTH, CELL_HEIGHT = 148, 100
MARGIN, HEADING, PIXEL = 16, 40, 7
"""The edge of the picture, the height of a line of text, and the side of a pixel of an image."""

BAR_WIDTH, BAR_HEIGHT = 6, 52
"""Of the bar of a digit, and its height where the digit is certain."""

INK, FAINT, RIGHT, WRONG = "#26292e", "#8a8d92", "#3b6fb6", "#c8504b"


def draw_reading(
    handwriting: Handwriting, reading: Reading, groups: Sequence[tuple[str, Sequence[int]]]
) -> str:
    """Return an SVG picture of some digits.

    Beside each digit stand ten bars, as high as the network held 0 to 9 for probable, and below it
    what was read, and what was written where this is something else.

    Args:
        handwriting: All images.
        reading: The digits that were read in them.
        groups: Headings, each with the numbers of the images below it.
    """
    parts, top = [], MARGIN
    for heading, chosen in groups:
        parts.append(_text(MARGIN, top + 16, heading, size=15))
        top += HEADING
        for place, number in enumerate(chosen):
            row, column = divmod(place, COLUMNS)
            x, y = MARGIN + column * CELL_WIDTH, top + row * CELL_HEIGHT
            parts.append(f'<g transform="translate({x} {y})">')
            parts.extend(_cell(handwriting, reading, number))
            parts.append("</g>")
        top += -(-len(chosen) // COLUMNS) * CELL_HEIGHT
    width, height = 2 * MARGIN + COLUMNS * CELL_WIDTH, top + MARGIN
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" font-family="DejaVu Sans, Helvetica, Arial, sans-serif">'
    )
    ground = f'<rect width="{width}" height="{height}" fill="#ffffff"/>'
    return "\n".join([head, ground, *parts, "</svg>", ""])


def _cell(handwriting: Handwriting, reading: Reading, number: int) -> Iterator[str]:
    """Yield the parts of one digit."""
    written, read = int(handwriting.written[number]), int(reading.read[number])
    probabilities = reading.probabilities[number]
    colour = RIGHT if read == written else WRONG
    side = SIDE * PIXEL
    yield f'<rect width="{side}" height="{side}" fill="#f6f5f2"/>'
    yield from _pixels(handwriting.images[number, ..., 0])
    for digit, probability in enumerate(probabilities):
        x = side + 4 + digit * BAR_WIDTH
        height = BAR_HEIGHT * float(probability)
        fill = colour if digit == read else FAINT
        yield (
            f'<rect x="{x}" y="{BAR_HEIGHT - height:.1f}" width="{BAR_WIDTH - 1}" '
            f'height="{height:.1f}" fill="{fill}"/>'
        )
        label = INK if digit in (read, written) else FAINT
        centre = x + (BAR_WIDTH - 1) / 2
        yield _text(centre, side + 5, str(digit), size=8, fill=label, anchor="middle")
    told = f"{read} ({100 * probabilities[read]:.0f} %)"
    wrong = "" if read == written else f", written {written}"
    yield _text(0, side + 22, told + wrong, fill=colour)


def _pixels(image: Array) -> Iterator[str]:
    """Yield the pixels of one image that are not empty."""
    for (row, column), value in np.ndenumerate(image):
        if value > 0:
            yield (
                f'<rect x="{column * PIXEL}" y="{row * PIXEL}" width="{PIXEL}" height="{PIXEL}" '
                f'fill="{INK}" fill-opacity="{value:.2f}" shape-rendering="crispEdges"/>'
            )


def _text(
    x: float, y: float, words: str, *, size: int = 12, fill: str = INK, anchor: str = "start"
) -> str:
    return (
        f'<text x="{x}" y="{y}" font-size="{size}" fill="{fill}" text-anchor="{anchor}">'
        f"{words}</text>"
    )
