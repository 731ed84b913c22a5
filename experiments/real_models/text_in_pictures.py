"""What is written in these pictures? Asked of PaddleOCR's networks for detection and recognition.

Lines of text are drawn with Pillow's own font. The detector marks the pixels of text in a picture
of any size, :func:`boxes_of` finds lines in the marks, and the recognizer reads each line, of any
length: at each place it tells the most probable letter or none::

    python -m experiments.real_models.solve text_in_pictures
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import onnx
from typing_extensions import override

from experiments.real_models.shipped import DETECTOR, RECOGNIZER
from experiments.real_models.task import Answer, Run, Task, TrainedNetwork
from glow_nb.base.types import Array

if TYPE_CHECKING:
    from PIL import Image  # otherwise this task alone needs it

PICTURES = (
    ((320, 160), 26, ("Graph lowering", "1805.00907")),
    ((448, 224), 30, ("The quick brown fox", "jumps over 13 dogs", "Compiler")),
    ((256, 96), 34, ("Digits 42",)),
)
"""Width and height (multiples of 32), the size of the font, and the lines that are written."""

LINE_HEIGHT = 48
"""Pixels of a line that the recognizer reads."""

IS_TEXT, SMALLEST = 0.3, 20
"""The least probability of a pixel of text, and the least number of pixels of a line."""

SPREAD = 1.6
"""The detector marks the middle of a line alone, by which area over edge it must grow."""


def drawn(size: tuple[int, int], height: int, lines: Sequence[str]) -> Image.Image:
    """Return a picture of black *lines* on white."""
    from PIL import Image, ImageDraw, ImageFont

    picture = Image.new("RGB", size, "white")
    font = ImageFont.load_default(height)
    for number, line in enumerate(lines):
        place = (20, 16 + number * (size[1] - 24) // len(lines))
        ImageDraw.Draw(picture).text(place, line, "black", font)
    return picture


class TextInPictures(Task):
    """The lines of the pictures, found and read."""

    networks: ClassVar[Mapping[str, TrainedNetwork]] = {
        "detector": TrainedNetwork(DETECTOR),
        "recognizer": TrainedNetwork(RECOGNIZER),
    }
    imported_packages = ("pillow",)

    def __init__(
        self, pictures: Sequence[tuple[tuple[int, int], int, Sequence[str]]] = PICTURES
    ) -> None:
        """Draw *pictures*, each of a size, the size of a font, and lines."""
        self._pictures = pictures

    @override
    def solve(self, runs: Mapping[str, Run]) -> Answer:
        """Return the lines that are read, from above to below."""
        letters = letters_of_the_recognizer()
        found: list[str] = []
        for size, height, lines in self._pictures:
            picture = drawn(size, height, lines)
            (marks,) = runs["detector"]({"x": as_input(picture)}).values()
            boxes = boxes_of(marks[0, 0] > IS_TEXT)
            read = [read_line(runs["recognizer"], picture.crop(box), letters) for box in boxes]
            found += [*read, *len(lines) * [""]][: len(lines)]
        return Answer(found, [line for _, _, lines in self._pictures for line in lines])


def letters_of_the_recognizer() -> list[str]:
    """Return what its outputs stand for: nothing, the letters that the model lists, and a blank."""
    properties = onnx.load(RECOGNIZER.path()).metadata_props
    listed = next(each.value for each in properties if each.key == "character")
    return ["", *listed.splitlines(), " "]


def as_input(picture: Image.Image) -> Array:
    """Return ``float32[1, 3, height, width]`` from -1 to 1."""
    pixels = np.asarray(picture.convert("RGB"), np.float32).transpose(2, 0, 1)
    return np.ascontiguousarray(pixels[None] / 127.5 - 1)


def boxes_of(marks: Array) -> Iterator[tuple[int, int, int, int]]:
    """Yield left, top, right and bottom of each line of text, the upper ones first.

    A line is what touches each other in *marks*, ``bool[height, width]``, and a margin around it.
    """
    found = []
    for rows, columns in connected(marks):
        if len(rows) < SMALLEST:
            continue
        top, left, bottom, right = rows.min(), columns.min(), rows.max() + 1, columns.max() + 1
        height, width = bottom - top, right - left
        margin = round(SPREAD * height * width / (2 * (height + width)))
        found.append((left - margin, top - margin, right + margin, bottom + margin))
    yield from sorted(found, key=lambda box: box[1])


def connected(marks: Array) -> list[tuple[Array, ...]]:
    """Return rows and columns of each set of marked pixels that touch each other by an edge."""
    numbers = np.where(marks, np.arange(1, marks.size + 1).reshape(marks.shape), 0)
    while True:
        padded = np.pad(numbers, 1)
        neighbours = (padded[:-2, 1:-1], padded[2:, 1:-1], padded[1:-1, :-2], padded[1:-1, 2:])
        grown = np.where(marks, np.maximum.reduce([numbers, *neighbours]), 0)
        if np.array_equal(grown, numbers):
            break
        numbers = grown
    return [np.nonzero(numbers == number) for number in np.unique(numbers[numbers > 0])]


def read_line(run: Run, line: Image.Image, letters: Sequence[str]) -> str:
    """Return what is written in the picture of one *line*."""
    from PIL import Image

    width = max(LINE_HEIGHT, round(line.width * LINE_HEIGHT / line.height))
    scaled = line.resize((width, LINE_HEIGHT), Image.Resampling.BILINEAR)
    (probabilities,) = run({"x": as_input(scaled)}).values()
    return collapsed(probabilities[0].argmax(axis=1), letters)


def collapsed(places: Array, letters: Sequence[str]) -> str:
    """Return the text of the best letter at each place: a letter that goes on counts once (CTC)."""
    is_new = np.diff(places, prepend=-1) != 0
    return "".join(letters[place] for place in places[is_new])
