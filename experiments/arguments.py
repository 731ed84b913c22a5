"""Kinds of arguments that several experiments take."""

from __future__ import annotations

import argparse

from glow_nb.base.arguments import MOST_THREADS


def thread_count(text: str) -> int:
    """Return how many threads *text* names.

    Raises:
        ArgumentTypeError: It is no whole number that ``threads=`` takes.
    """
    if not text.isdecimal() or not 1 <= int(text) <= MOST_THREADS:
        raise argparse.ArgumentTypeError(f"{text}: give a whole number from 1 to {MOST_THREADS}")
    return int(text)
