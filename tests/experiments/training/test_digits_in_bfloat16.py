"""The trained network for digits reads the same digits in bfloat16."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import glow_nb
from experiments.training import digits
from glow_nb import quant
from glow_nb.base.types import Array

SHIPPED = Path(digits.__file__).parents[1] / "digits.onnx"

FONT = """\
.###. ..#.. .###. .###. ...#. ##### .###. ##### .###. .###.
#...# .##.. #...# #...# ..##. #.... #.... ....# #...# #...#
#...# ..#.. ....# ....# .#.#. ####. #.... ...#. #...# #...#
#...# ..#.. ...#. ..##. #..#. ....# ####. ..#.. .###. .####
#...# ..#.. ..#.. ....# ##### ....# #...# ..#.. #...# ....#
#...# ..#.. .#... #...# ...#. #...# #...# ..#.. #...# ....#
.###. .###. ##### .###. ...#. .###. .###. ..#.. .###. .###."""
"""Each digit, of 5 x 7 pixels."""


def images() -> Array:
    """Return drawings of all digits at three places, with a little of noise, ``[30, 8, 8, 1]``."""
    random, made = np.random.default_rng(0), []
    for line in zip(*(row.split() for row in FONT.splitlines()), strict=True):
        pixels = np.array([[pixel == "#" for pixel in row] for row in line], np.float32)
        for left in (1, 2, 3):
            image = np.pad(pixels, ((0, 1), (left, 3 - left)))
            made.append(np.clip(image + 0.1 * random.standard_normal(image.shape), 0, 1))
    return np.stack(made).astype(np.float32)[..., None]


def test_digits_are_read_alike() -> None:
    net, full = (
        glow_nb.compile(SHIPPED, backend="interpreter", precision=precision, cache=False)
        for precision in ("bfloat16", "float32")
    )
    asked = images()
    scores, wanted = (each.run(asked)["scores"] for each in (net, full))
    assert len(set(wanted.argmax(1))) > 7  # it does read them
    np.testing.assert_array_equal(scores.argmax(1), wanted.argmax(1))
    assert 0 < np.abs(scores - wanted).max() < 0.02 * np.abs(wanted).max()


def test_drift_shows_which_factors_are_rounded() -> None:
    options = {"backend": "interpreter", "runs": 0, "precision": "bfloat16"}
    found, kept = (
        quant.drift(SHIPPED, SHIPPED, images(), keep=keep, **options)  # type: ignore[arg-type]
        for keep in ((), ("*normalization*",))
    )
    assert len(found.values) == 4
    assert len(kept.values) == 1
    assert all(35 < each.signal_to_noise < 70 for each in (*found.values, *found.outputs))
    assert found.outputs[0].signal_to_noise < kept.outputs[0].signal_to_noise
