"""Which of two dozen sentences says the same as another one? Asked of all-MiniLM-L6-v2.

Each sentence is cut into pieces of words (:class:`WordPieces`), the network makes a vector of each
piece, and their mean is compared. The true neighbour of a sentence is the other one about the same
thing, in other words::

    python -m experiments.real_models.solve nearest_sentences
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np
from typing_extensions import override

from experiments.real_models.shipped import SENTENCES, VOCABULARY
from experiments.real_models.task import Answer, Run, Task, TrainedNetwork
from glow_nb.base.types import Array

PAIRS = (
    ("The cat sleeps on the sofa all day.", "Our kitten naps on the couch from dawn to dusk."),
    ("He repairs old bicycles in his garage.", "At home, the mechanic fixes worn-out bikes."),
    ("Heavy rain flooded the streets last night.", "Water filled the roads after the storm."),
    ("She plays the violin in an orchestra.", "The musician performs on strings with an ensemble."),
    ("The bank raised its interest rates.", "Borrowing money has become more expensive."),
    ("Children learn to read at school.", "Pupils are taught letters by their teachers."),
    ("A rocket carried the satellite into orbit.", "The spacecraft was launched successfully."),
    ("This soup needs more salt.", "The broth tastes bland and should be seasoned."),
    ("The doctor prescribed antibiotics.", "A physician gave the patient medicine."),
    ("Bees collect nectar from flowers.", "Insects visit blossoms to make honey."),
    ("The compiler translates source code.", "A program turns text into machine instructions."),
    ("Our team won the football match.", "The players scored and beat their opponents."),
)


class WordPieces:
    """Cuts text into the pieces of words that BERT's networks know.

    A word is cut into the longest piece of the vocabulary that it begins with, then into the
    longest one that goes on from there, which is written ``##piece``.
    """

    def __init__(self, path: Path) -> None:
        """Read the vocabulary of a ``tokenizer.json``."""
        model = json.loads(path.read_text(encoding="utf-8"))["model"]
        self._numbers: dict[str, int] = model["vocab"]

    def encoded(self, text: str) -> list[int]:
        """Return the numbers of the pieces of *text*, between those of its begin and its end."""
        pieces = [piece for word in _words(text) for piece in self._pieces(word)]
        return [self._numbers[piece] for piece in ("[CLS]", *pieces, "[SEP]")]

    def _pieces(self, word: str) -> list[str]:
        found: list[str] = []
        begin = 0
        while begin < len(word):
            mark = "##" if begin else ""
            ends = range(len(word), begin, -1)
            end = next((end for end in ends if mark + word[begin:end] in self._numbers), None)
            if end is None:
                return ["[UNK]"]
            found.append(mark + word[begin:end])
            begin = end
        return found


def _words(text: str) -> list[str]:
    """Return the words of *text* without capitals and accents; each other mark is a word."""
    plain = unicodedata.normalize("NFD", text.lower())
    kept = (mark for mark in plain if unicodedata.category(mark) != "Mn")
    spaced = (mark if mark.isalnum() or mark.isspace() else f" {mark} " for mark in kept)
    return "".join(spaced).split()


class NearestSentences(Task):
    """For each sentence of ``PAIRS``, the nearest of all others."""

    networks: ClassVar[Mapping[str, TrainedNetwork]] = {
        "encoder": TrainedNetwork(SENTENCES, options={"sizes": {"batch": 1, "sequence": (1, 256)}})
    }
    further_files = (VOCABULARY,)

    def __init__(self, pairs: Sequence[tuple[str, str]] = PAIRS) -> None:
        """Ask about *pairs*."""
        self._pairs = pairs

    @override
    def solve(self, runs: Mapping[str, Run]) -> Answer:
        """Return the nearest sentences."""
        cutter = WordPieces(VOCABULARY.path())
        sentences = [*(first for first, _ in self._pairs), *(second for _, second in self._pairs)]
        truth = [*(second for _, second in self._pairs), *(first for first, _ in self._pairs)]
        vectors = np.stack([meaning(runs["encoder"], cutter.encoded(text)) for text in sentences])
        likeness = vectors @ vectors.T
        np.fill_diagonal(likeness, -1)
        return Answer([sentences[index] for index in likeness.argmax(axis=1)], truth)


def meaning(run: Run, pieces: Sequence[int]) -> Array:
    """Return a vector of length 1 for a sentence: the mean over its pieces."""
    numbers = np.array([pieces], np.int64)
    feeds = {
        "input_ids": numbers,
        "attention_mask": np.ones_like(numbers),
        "token_type_ids": np.zeros_like(numbers),
    }
    mean = run(feeds)["last_hidden_state"][0].mean(axis=0)
    direction: Array = mean / np.linalg.norm(mean)
    return direction
