"""Which lines of two texts belong together, for texts most of whose lines occur once.

The lines that both texts have exactly once are matched, and the longest increasing sequence of
these matches is kept (patience difference). So a thousand nodes, most of which a pass leaves alone,
are compared in a moment.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence

CONTEXT = 2
"""Unchanged lines that are shown around a change."""


def anchors(left: Sequence[Hashable], right: Sequence[Hashable]) -> list[tuple[int, int]]:
    """Return numbers of equal lines of both texts, increasing in both."""
    once = Counter(left) | Counter(right)  # the larger of both counts
    places = {line: number for number, line in enumerate(right) if once[line] == 1}
    pairs = [(n, places[line]) for n, line in enumerate(left) if line in places]
    return increasing(pairs)


def increasing(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the longest part of *pairs*, which increase in the first, that does in the second."""
    ends: list[int] = []  # the least second number that a sequence of each length ends with
    last: list[int] = []  # the pair that it ends with
    before: list[int] = []
    for number, (_, second) in enumerate(pairs):
        length = bisect_left(ends, second)
        before.append(last[length - 1] if length else -1)
        ends[length : length + 1] = [second]
        last[length : length + 1] = [number]
    kept, number = [], last[-1] if last else -1
    while number >= 0:
        kept.append(pairs[number])
        number = before[number]
    return kept[::-1]


def matched(left: Sequence[Hashable], right: Sequence[Hashable]) -> list[tuple[int, int]]:
    """Return all lines of both texts in order: pairs of numbers, -1 for a line of one alone."""
    found: list[tuple[int, int]] = []
    begin = (0, 0)
    for pair in [*anchors(left, right), (len(left), len(right))]:
        found += _between(left, right, begin, pair)
        if pair != (len(left), len(right)):
            found.append(pair)
        begin = pair[0] + 1, pair[1] + 1
    return found


def _between(
    left: Sequence[Hashable],
    right: Sequence[Hashable],
    begin: tuple[int, int],
    end: tuple[int, int],
) -> Iterator[tuple[int, int]]:
    """Yield the lines between two anchors: equal ones at both ends, the rest apart."""
    (a, b), (c, d) = begin, end
    while a < c and b < d and left[a] == right[b]:
        yield a, b
        a, b = a + 1, b + 1
    tail = 0
    while a < c - tail and b < d - tail and left[c - tail - 1] == right[d - tail - 1]:
        tail += 1
    yield from ((n, -1) for n in range(a, c - tail))
    yield from ((-1, n) for n in range(b, d - tail))
    yield from zip(range(c - tail, c), range(d - tail, d), strict=True)


def unified(left: Sequence[str], right: Sequence[str], context: int = CONTEXT) -> list[str]:
    """Return the changed lines with a mark in front, and *context* lines around them.

    The mark is ``-`` for a line of *left* alone, ``+`` for one of *right*, a blank for one of both;
    ``@`` stands where lines are left out.
    """
    pairs = matched(left, right)
    changes = [n for n, pair in enumerate(pairs) if -1 in pair]
    shown = {
        n
        for change in changes
        for n in range(max(0, change - context), min(len(pairs), change + context + 1))
    }
    lines, last = list[str](), -1
    for number in sorted(shown):
        if number > last + 1:
            lines.append(f"@ {number - last - 1} lines as before")
        lines.append(_line(left, right, *pairs[number]))
        last = number
    if changes and last < len(pairs) - 1:
        lines.append(f"@ {len(pairs) - 1 - last} lines as before")
    return lines


def _line(left: Sequence[str], right: Sequence[str], one: int, other: int) -> str:
    if other < 0:
        return f"-{left[one]}"
    return f"+{right[other]}" if one < 0 else f" {right[other]}"
