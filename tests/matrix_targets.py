"""Targets without matrix registers, for which kernels of these are emulated."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Any

from glow_nb.kernels.target import MATRIX_FEATURES, Target
from tests.in_turn import marked_rows

EMULATED, INSTRUCTIONS = "emulated", "instructions"
"""How matrix registers compute: as any processor can, and by the instructions of those that have
them."""


def emulated_and(cases: Iterable[Any], by_instructions: Collection[Any]) -> list[Any]:
    """Return ``(case, way)`` for all: emulated, and *by_instructions* where that is said.

    The slow run has every case both ways: the text of a kernel is the same, and the compiler takes
    most of the time of a test.
    """
    return marked_rows(
        [(case, way) for case in cases for way in (EMULATED, INSTRUCTIONS)],
        slow=[(case, INSTRUCTIONS) for case in cases if case not in by_instructions],
    )


def without_matrix_registers(target: Target) -> Target:
    """Return *target* without the features of matrix registers."""
    features = target.features
    for name in MATRIX_FEATURES:
        features = features.replace(f"+{name}", f"-{name}")
    return replace(target, features=features)
