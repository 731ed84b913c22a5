"""Which notes does a melody have? Asked of Basic Pitch.

The melody is synthesized, a string that is plucked for each note, so that its notes are known. The
network hears two seconds at a time::

    python -m experiments.real_models.solve notes_of_a_melody
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import ClassVar

import numpy as np
from typing_extensions import override

from experiments.real_models.shipped import NOTES
from experiments.real_models.task import Answer, Run, Task, TrainedNetwork
from glow_nb.base.types import Array

RATE, WINDOW, HOP = 22050, 43844, 256
"""Samples of a second, of what the network hears at once, and between two of its answers."""

LOWEST = 21
"""The number of the lowest key of a piano."""

NAMES = ("C", "C#", "D", "D#", "E", "F", "F#", "G", "G#", "A", "A#", "B")
NOTES_OF_A_WINDOW = 6

MELODIES = (
    (60, 62, 64, 65, 67, 69),
    (71, 72, 67, 64, 60, 55),
    (48, 52, 55, 60, 64, 67),
    (57, 57, 76, 69, 81, 45),
)
"""Keys of the notes of each melody; 60 is the C in the middle of a piano."""


def plucked(key: int, seconds: float) -> Array:
    """Return the sound of a string: harmonics, of which high ones are weaker and end sooner."""
    time = np.arange(round(seconds * RATE)) / RATE
    frequency = 440 * 2 ** ((key - 69) / 12)
    orders = range(1, min(9, int(RATE / 2 / frequency)))
    waves = [np.sin(2 * np.pi * n * frequency * time) * np.exp(-2 * n * time) / n for n in orders]
    sound: Array = np.sum(waves, axis=0) * np.minimum(1, time / 0.004)
    return sound


def name_of(key: int) -> str:
    """Return what musicians call a *key*, as ``C4``."""
    return f"{NAMES[key % 12]}{key // 12 - 1}"


class NotesOfAMelody(Task):
    """The notes of some melodies."""

    networks: ClassVar[Mapping[str, TrainedNetwork]] = {"listener": TrainedNetwork(NOTES)}

    def __init__(self, melodies: Sequence[Sequence[int]] = MELODIES) -> None:
        """Ask about *melodies*, each of ``NOTES_OF_A_WINDOW`` keys."""
        self._melodies = melodies

    @override
    def solve(self, runs: Mapping[str, Run]) -> Answer:
        """Return the names of the notes, melody by melody."""
        seconds = WINDOW / RATE / NOTES_OF_A_WINDOW
        found = []
        for melody in self._melodies:
            sound = np.concatenate([plucked(key, seconds) for key in melody])
            heard = np.zeros((1, WINDOW, 1), np.float32)
            heard[0, : len(sound), 0] = sound[:WINDOW] / np.abs(sound).max()
            outputs = runs["listener"]({"serving_default_input_2:0": heard})
            found += keys_of(outputs["StatefulPartitionedCall:1"][0], seconds)
        return Answer(
            [name_of(key) for key in found],
            [name_of(key) for melody in self._melodies for key in melody],
        )


def keys_of(strengths: Array, seconds: float) -> list[int]:
    """Return the strongest key in each note of so many *seconds*.

    Args:
        strengths: How strongly each of 88 keys sounds, ``float32[times, 88]``.
        seconds: The length of a note.
    """
    ends = np.rint(np.arange(NOTES_OF_A_WINDOW + 1) * seconds * RATE / HOP).astype(int)
    notes = [strengths[begin:end] for begin, end in pairwise(ends)]
    return [int(note.mean(axis=0).argmax()) + LOWEST for note in notes]
