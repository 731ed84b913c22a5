"""Cases with what their kernels are compiled for: a part in the default run, all in the slow one.

Most of the time of such a test is that of the compiler.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import pytest

from glow_nb.kernels.target import LANE_COUNTS


def left_out(
    step: int, cases: Iterable[Any], first: int = 0, always: Collection[Any] = ()
) -> list[Any]:
    """Return the *cases* that the default run leaves out.

    It has one of every *step*, beginning with that of number *first*, and those of *always*. Of all
    element kinds, every fourth one gives a float, integers with and without a sign, and storage
    kinds of floats and of integers, whatever *first* is.
    """
    assert 0 <= first < step, (first, step)
    return [
        case for number, case in enumerate(cases) if number % step != first and case not in always
    ]


def marked(
    cases: Iterable[Any], slow: Collection[Any] = (), *, only: Collection[Any] | None = None
) -> list[Any]:
    """Return all *cases*, those for the slow run marked.

    These are those among *slow* and, if *only* is given, all that are not among it.
    """
    return [
        pytest.param(case, marks=pytest.mark.slow if _is_slow(case, slow, only) else ())
        for case in cases
    ]


def marked_rows(
    rows: Iterable[Sequence[Any]],
    slow: Collection[Any] = (),
    *,
    only: Collection[Any] | None = None,
) -> list[Any]:
    """Return all *rows*, of several parameters each, marked as :func:`marked` marks cases."""
    return [
        pytest.param(*row, marks=pytest.mark.slow if _is_slow(row, slow, only) else ())
        for row in rows
    ]


def one_in(
    step: int, cases: Iterable[Any], first: int = 0, always: Collection[Any] = ()
) -> list[Any]:
    """Return all *cases*, those that :func:`left_out` returns marked slow."""
    cases = list(cases)
    return marked(cases, left_out(step, cases, first, always))


def each_with_one_width(
    cases: Iterable[Any], slow: Collection[Any] = (), *, only: Collection[Any] | None = None
) -> list[Any]:
    """Return ``(case, lanes)`` for all: one width a case, in turn, and the others marked slow."""
    return in_turn(cases, LANE_COUNTS, slow=slow, only=only)


def in_turn(
    cases: Iterable[Any],
    variants: Collection[Any],
    most: int = 1,
    slow: Collection[Any] = (),
    *,
    only: Collection[Any] | None = None,
) -> list[Any]:
    """Return ``(case, variant)`` for all: *most* variants a case, in turn, the others marked slow.

    The default run has each variant, if there are cases enough, and of the cases those that
    :func:`marked` does not mark.
    """
    step = -(-len(variants) // most)
    found: list[Any] = []
    turn = 0
    for case in cases:
        is_slow = _is_slow(case, slow, only)
        found += [
            pytest.param(
                case, variant, marks=pytest.mark.slow if is_slow or (place - turn) % step else ()
            )
            for place, variant in enumerate(variants)
        ]
        turn += not is_slow
    return found


def _is_slow(case: Any, slow: Collection[Any], only: Collection[Any] | None) -> bool:
    return case in slow or (only is not None and case not in only)
