"""Cases with what their kernels are compiled for: a part in the default run, all in the slow one.

Most of the time of such a test is that of the compiler.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest

from glow_nb.kernels.target import LANE_COUNTS


def each_with_one_width(cases: Iterable[Any], slow: Collection[Any] = ()) -> list[Any]:
    """Return ``(case, lanes)`` for all: one width a case, in turn, and the others marked slow."""
    return in_turn(cases, LANE_COUNTS, slow=slow)


def every_second(cases: Iterable[Any]) -> list[Any]:
    """Return all *cases*, every second one marked slow."""
    return [
        pytest.param(case, marks=pytest.mark.slow if number % 2 else ())
        for number, case in enumerate(cases)
    ]


def in_turn(
    cases: Iterable[Any], ways: Collection[Any], most: int = 1, slow: Collection[Any] = ()
) -> list[Any]:
    """Return ``(case, way)`` for all: up to *most* ways a case, in turn, the others marked slow.

    The default run has each way, if there are cases enough, and none of the *slow* cases.
    """
    step = -(-len(ways) // most)

    def marks(case: Any, turn: int) -> Any:
        return pytest.mark.slow if turn % step or case in slow else ()

    return [
        pytest.param(case, way, marks=marks(case, place - number))
        for number, case in enumerate(cases)
        for place, way in enumerate(ways)
    ]
