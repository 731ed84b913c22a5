"""Does somebody speak? Asked of Silero VAD.

A synthesizer speaks (:mod:`experiments.real_models.synthesizer`); silence, noise, a hum, a chord
and clicks are no speech. The network hears 32 ms at a time and keeps what it remembers in a state,
which goes from run to run. Its graph chooses between two networks by the rate of the sound, a
constant here::

    python -m experiments.real_models.solve speech_in_sound
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from typing_extensions import override

from experiments.real_models.shipped import VOICE, VOICE_OF_SEQUENCES
from experiments.real_models.synthesizer import RATE, spoken
from experiments.real_models.task import Answer, Run, Task, TrainedNetwork
from glow_nb.base.types import Array

WINDOW, CONTEXT = 512, 64
"""Samples that are new in each run, and those before them that it hears once more."""

SPEECH, OTHER = "speech", "no speech"
SENTENCES = (
    ("mimo amipa", 110),
    ("nila emuno ami", 150),
    ("amelu minoa", 190),
    ("lime ona munila", 220),
)
"""What is said, and at which pitch."""

THRESHOLD = 0.5


def sounds() -> list[tuple[Array, str]]:
    """Return sounds of one to two seconds, and what they are."""
    random = np.random.default_rng(0)
    time = np.arange(2 * RATE) / RATE
    chord = sum(np.sin(2 * np.pi * pitch * time) for pitch in (220, 277, 330, 440)) / 10
    clicks = np.zeros(2 * RATE)
    clicks[:: RATE // 4] = 0.9
    others = [
        np.zeros(2 * RATE),
        random.normal(0, 0.1, 2 * RATE),
        np.cumsum(random.normal(0, 0.005, 2 * RATE)) % 0.2,
        0.3 * np.sin(2 * np.pi * 50 * time) + 0.05 * np.sin(2 * np.pi * 150 * time),
        np.asarray(chord),
        clicks,
    ]
    voices = [spoken(words, pitch) for words, pitch in SENTENCES]
    return [
        *((voice, SPEECH) for voice in voices),
        *((other.astype(np.float32), OTHER) for other in others),
    ]


class SpeechInSound(Task):
    """Which sounds are speech, by the network that hears one window after the other."""

    networks: ClassVar[Mapping[str, TrainedNetwork]] = {
        "listener": TrainedNetwork(VOICE, constants={"sr": np.array(RATE)})
    }

    @override
    def solve(self, runs: Mapping[str, Run]) -> Answer:
        """Return whether each sound is speech."""
        known = sounds()
        found = [named(self.probabilities(runs["listener"], sound)) for sound, _ in known]
        return Answer(found, [truth for _, truth in known])

    def probabilities(self, run: Run, sound: Array) -> Array:
        """Return how probable speech is in each window."""
        state = np.zeros((2, 1, 128), np.float32)
        found = []
        for window in windows(sound):
            outputs = run({"input": window[None], "state": state})
            state = outputs["stateN"]
            found.append(outputs["output"].item())
        return np.array(found)


class SpeechInSequences(Task):
    """The same by the network that hears all windows of a sound in one run, of any length."""

    networks: ClassVar[Mapping[str, TrainedNetwork]] = {
        "listener": TrainedNetwork(VOICE_OF_SEQUENCES)
    }

    @override
    def solve(self, runs: Mapping[str, Run]) -> Answer:
        """Return whether each sound is speech."""
        known = sounds()
        start = np.zeros((1, 1, 128), np.float32)
        found = [
            named(
                runs["listener"]({"input": windows(sound), "h": start, "c": start})["speech_probs"]
            )
            for sound, _ in known
        ]
        return Answer(found, [truth for _, truth in known])


def windows(sound: Array) -> Array:
    """Return the windows of *sound*, each with what was before it, ``float32[count, 576]``."""
    padded = np.pad(sound, (CONTEXT, -len(sound) % WINDOW))
    every = np.lib.stride_tricks.sliding_window_view(padded, CONTEXT + WINDOW)
    return np.ascontiguousarray(every[::WINDOW], np.float32)


def named(probabilities: Array) -> str:
    """Return whether somebody speaks: some windows in a row must be speech."""
    is_speech = (probabilities > THRESHOLD).astype(int)
    longest = np.convolve(is_speech, np.ones(4, int)).max()
    return SPEECH if longest == 4 else OTHER
