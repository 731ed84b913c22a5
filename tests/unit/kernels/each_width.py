"""Cases with the widths that their kernels are compiled for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from glow_nb.kernels.target import LANE_COUNTS


def each_with_one_width(cases: Iterable[Any]) -> list[Any]:
    """Return ``(case, lanes)`` for all: one width a case, in turn, and the others marked slow.

    Most of the time of such a test is that of the compiler.
    """
    return [
        pytest.param(
            case,
            lanes,
            marks=() if place == number % len(LANE_COUNTS) else pytest.mark.slow,
        )
        for number, case in enumerate(cases)
        for place, lanes in enumerate(LANE_COUNTS)
    ]
