"""The picture of what was read."""

from __future__ import annotations

from xml.etree import ElementTree

import numpy as np

from glow_nb.demo.handwriting import Handwriting, reading_of
from glow_nb.demo.picture import BAR_HEIGHT, RIGHT, WRONG, draw_reading

SVG = "{http://www.w3.org/2000/svg}"


def drawn() -> ElementTree.Element:
    """Return the picture of two digits, of which the second is read wrongly."""
    images = np.zeros((2, 8, 8, 1), np.float32)
    images[0, 2, 3], images[1] = 0.25, 1
    scores = np.log(np.full((2, 10), 0.05, np.float32))
    scores[:, 7] = np.log(0.55)
    handwriting = Handwriting(images, np.array([7, 1]))
    text = draw_reading(handwriting, reading_of(scores), [("both", [0]), ("again", [1, 0])])
    return ElementTree.fromstring(text)


def test_each_digit_has_its_pixels_and_what_was_read() -> None:
    right, wrong, again = drawn().iter(f"{SVG}g")
    told = [text.text for cell in (right, wrong, again) for text in cell.iter(f"{SVG}text")]
    assert [words for words in told if words and "%" in words] == [
        "7 (55 %)",
        "7 (55 %), written 1",
        "7 (55 %)",
    ]
    for cell, pixels in ((right, 1), (wrong, 64)):
        assert sum("fill-opacity" in part.attrib for part in cell) == pixels


def test_bars_are_as_high_as_digits_are_probable() -> None:
    right, wrong, _ = drawn().iter(f"{SVG}g")
    for cell, colour in ((right, RIGHT), (wrong, WRONG)):
        (bar,) = [part for part in cell.iter(f"{SVG}rect") if part.get("fill") == colour]
        assert abs(float(bar.attrib["height"]) - 0.55 * BAR_HEIGHT) < 0.06


def test_nothing_leaves_the_picture() -> None:
    picture = drawn()
    _, _, width, height = map(float, picture.attrib["viewBox"].split())
    for cell in picture.iter(f"{SVG}g"):
        words = cell.attrib["transform"].removeprefix("translate(").removesuffix(")")
        left, top = map(float, words.split())
        for part in cell.iter(f"{SVG}rect"):
            right = left + float(part.get("x", 0)) + float(part.attrib["width"])
            below = top + float(part.get("y", 0)) + float(part.attrib["height"])
            assert 0 <= right <= width
            assert 0 <= below <= height
