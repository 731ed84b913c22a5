"""A voice of a few lines: pulses of a throat, or the hiss of a tongue, through resonances.

It is the classic synthesis by formants: a sound of speech is told by the frequencies at which the
mouth resonates, which glide from one sound to the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from glow_nb.base.types import Array

RATE = 16000
"""Samples of a second."""

BANDWIDTHS = (80.0, 100.0, 120.0, 150.0)
"""Of the four resonances, in Hz."""


@dataclass(frozen=True)
class Sound:
    """A sound of speech.

    Attributes:
        formants: The frequencies of four resonances, in Hz.
        seconds: How long it lasts.
        loudness: From 0 to 1.
        is_voiced: Whether the throat pulses; otherwise the breath hisses.
    """

    formants: tuple[float, float, float, float]
    seconds: float
    loudness: float
    is_voiced: bool = True


SOUNDS = {
    "a": Sound((730, 1090, 2440, 3500), 0.18, 1.0),
    "e": Sound((530, 1840, 2480, 3500), 0.18, 1.0),
    "i": Sound((270, 2290, 3010, 3500), 0.18, 1.0),
    "o": Sound((570, 840, 2410, 3500), 0.18, 1.0),
    "u": Sound((300, 870, 2240, 3500), 0.18, 1.0),
    "m": Sound((250, 1100, 2200, 3300), 0.09, 0.5),
    "n": Sound((250, 1500, 2500, 3300), 0.08, 0.5),
    "l": Sound((360, 1200, 2700, 3400), 0.08, 0.6),
    "s": Sound((4000, 5000, 6000, 7000), 0.09, 0.25, is_voiced=False),
    "p": Sound((400, 1100, 2300, 3500), 0.05, 0.0, is_voiced=False),
    "t": Sound((400, 1500, 2500, 3500), 0.05, 0.0, is_voiced=False),
    " ": Sound((500, 1500, 2500, 3500), 0.06, 0.0),
}


def spoken(words: str, pitch: float = 120.0, seed: int = 0) -> Array:
    """Return *words*, written in the letters of ``SOUNDS``, as sound from -0.5 to 0.5.

    Args:
        words: What is said.
        pitch: Pulses of the throat in a second: about 120 for a low voice, 210 for a high one.
        seed: Of the hiss.
    """
    sounds = [SOUNDS[letter] for letter in words]
    lengths = [round(sound.seconds * RATE) for sound in sounds]
    formants = np.repeat([sound.formants for sound in sounds], lengths, axis=0)
    formants = np.stack([_smoothed(track, 801) for track in formants.T])
    loudness = _smoothed(np.repeat([sound.loudness for sound in sounds], lengths), 321)
    voiced = _smoothed(np.repeat([float(sound.is_voiced) for sound in sounds], lengths), 161)
    hiss = np.random.default_rng(seed).normal(0, 0.3, len(loudness))
    source = voiced * _throat(len(loudness), pitch) + (1 - voiced) * hiss
    sound = source * loudness
    for frequencies, bandwidth in zip(formants, BANDWIDTHS, strict=True):
        sound = _resonance(sound, frequencies, bandwidth)
    result: Array = (sound / np.abs(sound).max() * 0.5).astype(np.float32)
    return result


def _smoothed(track: Array, samples: int) -> Array:
    """Return *track* averaged over an odd number of *samples*, the middle of which counts most."""
    weights = np.hanning(samples)
    padded = np.pad(track, samples // 2, mode="edge")
    return np.convolve(padded, weights / weights.sum(), "valid")


def _throat(samples: int, pitch: float) -> Array:
    """Return pulses whose pitch rises and falls, as in a sentence."""
    time = np.arange(samples) / RATE
    melody = 1 + 0.12 * np.sin(2 * np.pi * 1.7 * time) - 0.15 * time / time[-1]
    pulses = np.diff(np.floor(np.cumsum(pitch * melody / RATE)), prepend=0)
    decays = 0.95 ** np.arange(200), 0.1 * 0.9 ** np.arange(120)
    for decay in decays:
        pulses = np.convolve(pulses, decay)[:samples]
    source: Array = 8 * np.diff(pulses, prepend=0)
    return source


def _resonance(sound: Array, frequencies: Sequence[float] | Array, bandwidth: float) -> Array:
    """Return *sound* through a resonance, whose frequency is another one at each sample."""
    radius = np.exp(-np.pi * bandwidth / RATE)
    turns = 2 * radius * np.cos(2 * np.pi * np.asarray(frequencies) / RATE)
    driven = (1 - turns + radius**2) * sound
    result = np.zeros(len(sound))
    before = last = 0.0
    for index, (turn, drive) in enumerate(zip(turns.tolist(), driven.tolist(), strict=True)):
        before, last = last, drive + turn * last - radius**2 * before
        result[index] = last
    return result
