"""Handwritten digits, and the trained network that reads them; both are files beside this one.

The digits are of the *Optical Recognition of Handwritten Digits* by E. Alpaydin and C. Kaynak, UCI
Machine Learning Repository, https://doi.org/10.24432/C50P49, licensed under CC BY 4.0. The network
was trained by ``experiments/training/digits.py`` on other images of the same data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from glow_nb.base.types import Array

SOURCE = "UCI Machine Learning Repository, CC BY 4.0"
MODEL = Path(__file__).with_name("digits.onnx")
"""The network: ``image``, ``float32[batch, 8, 8, 1]``, to ``scores``, ``float32[batch, 10]``."""

IMAGE, SCORES = "image", "scores"
SIDE, BRIGHTEST = 8, 16
"""Pixels of a row, and the value of a pixel that the pen covered wholly."""

SHADES = " .:-=+*#%@"
"""Characters for pixels from empty to covered."""


@dataclass(frozen=True)
class Handwriting:
    """Images of digits, and what was written.

    Attributes:
        images: ``float32[count, 8, 8, 1]`` from 0 to 1.
        written: The digit of each image, ``int64[count]``.
    """

    images: Array
    written: Array


@dataclass(frozen=True)
class Reading:
    """The reading of images by a network.

    Attributes:
        probabilities: ``float64[count, 10]``, the softmax of its scores.
        read: The most probable digit of each image, ``int64[count]``.
    """

    probabilities: Array
    read: Array

    def sureness(self) -> Array:
        """Return the probability of each digit that was read."""
        best: Array = self.probabilities.max(axis=1)
        return best


def load_digits() -> Handwriting:
    """Return all digits of the file."""
    path = Path(__file__).with_name("digits.csv")
    rows = np.loadtxt(path, np.int64, delimiter=",")
    images = rows[:, :-1].reshape(-1, SIDE, SIDE, 1) / BRIGHTEST
    return Handwriting(images.astype(np.float32), rows[:, -1])


def reading_of(scores: Array) -> Reading:
    """Return what *scores*, ``float32[count, 10]``, say."""
    shifted = np.exp(scores.astype(np.float64) - scores.max(axis=1, keepdims=True))
    return Reading(shifted / shifted.sum(axis=1, keepdims=True), scores.argmax(axis=1))


def drawn_with_characters(images: Array, captions: Sequence[str], gap: int = 4) -> str:
    """Return *images* side by side as lines of text, two characters a pixel, over *captions*."""
    shades = np.rint(images[..., 0] * (len(SHADES) - 1)).astype(int)
    lines = [
        (" " * gap).join("".join(2 * SHADES[shade] for shade in row) for row in rows)
        for rows in shades.transpose(1, 0, 2)
    ]
    below = (" " * gap).join(f"{caption:<{2 * SIDE}}" for caption in captions)
    return "\n".join(line.rstrip() for line in (*lines, below))
