"""Digits, what is read in them, and how they are shown."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import glow_nb
from glow_nb.demo import handwriting
from glow_nb.demo.handwriting import MODEL, drawn_with_characters, load_digits, reading_of

CHECKOUT = Path(__file__).parents[3]


def test_digits_are_images_from_0_to_1() -> None:
    digits = load_digits()
    assert digits.images.shape == (360, 8, 8, 1)
    assert digits.images.dtype == np.float32
    assert digits.images.min() == 0
    assert digits.images.max() == 1
    assert set(digits.written) == set(range(10))


def test_the_file_of_digits_names_its_source_and_licence() -> None:
    path = Path(handwriting.__file__).with_name("digits.csv")
    notice = [line for line in path.read_text().splitlines() if line.startswith("#")]
    assert "10.24432/C50P49, licensed under CC BY 4.0" in " ".join(notice)


def test_the_network_reads_as_many_digits_as_it_says() -> None:
    digits = load_digits()
    net = glow_nb.compile(MODEL, shapes={"batch": 360}, backend="interpreter", cache=False)
    reading = reading_of(net.run(digits.images)["scores"])
    assert np.mean(reading.read == digits.written) == 357 / 360


def test_experiments_use_the_same_network() -> None:
    assert (CHECKOUT / "experiments" / "digits.onnx").read_bytes() == MODEL.read_bytes()


def test_probabilities_are_the_softmax_of_scores() -> None:
    scores = np.array([[0, np.log(3), 0], [1e4, 0, 0]], np.float32)
    reading = reading_of(scores)
    np.testing.assert_allclose(reading.probabilities, [[0.2, 0.6, 0.2], [1.0, 0.0, 0.0]], rtol=1e-6)
    np.testing.assert_array_equal(reading.read, [1, 0])
    np.testing.assert_allclose(reading.sureness(), [0.6, 1], rtol=1e-6)


def test_characters_are_darker_where_more_is_written() -> None:
    images = np.zeros((2, 8, 8, 1), np.float32)
    images[0, 0, 1], images[1, 7, 0] = 1, 0.5
    lines = drawn_with_characters(images, ["first", "second"]).splitlines()
    assert lines[0] == "  @@"
    assert lines[7] == " " * 20 + "=="
    assert lines[8] == "first               second"
