"""Which lines of two texts belong together."""

from __future__ import annotations

import random

from glow_nb.report.line_difference import increasing, matched, unified


def test_unchanged_lines_belong_together_and_others_stand_alone() -> None:
    assert matched("abcde", "axcye") == [(0, 0), (1, -1), (-1, 1), (2, 2), (3, -1), (-1, 3), (4, 4)]


def test_equal_lines_beside_a_match_belong_together_though_they_are_repeated() -> None:
    left, right = ["}", "a", "}", "}"], ["}", "a", "}", "b", "}"]
    assert matched(left, right) == [(0, 0), (1, 1), (2, 2), (-1, 3), (3, 4)]


def test_what_moved_is_gone_in_one_place_and_new_in_another() -> None:
    pairs = matched("abcd", "bcda")
    assert (0, -1) in pairs
    assert (-1, 3) in pairs
    assert len(pairs) == 5


def test_the_longest_increasing_part_is_kept() -> None:
    assert increasing([(0, 3), (1, 0), (2, 1), (3, 4), (4, 2)]) == [(1, 0), (2, 1), (4, 2)]
    assert increasing([]) == []


def test_every_line_occurs_once_and_in_order() -> None:
    rng = random.Random(1)
    for _ in range(50):
        left = [rng.choice("abcdefgh") for _ in range(rng.randrange(12))]
        right = [rng.choice("abcdefgh") for _ in range(rng.randrange(12))]
        pairs = matched(left, right)
        assert [one for one, _ in pairs if one >= 0] == list(range(len(left)))
        assert [other for _, other in pairs if other >= 0] == list(range(len(right)))
        assert all(left[a] == right[b] for a, b in pairs if a >= 0 <= b)


def test_a_difference_shows_what_is_around_a_change() -> None:
    left = [f"line {n}" for n in range(9)]
    right = [*left[:4], "other", *left[5:]]
    assert unified(left, right, context=1) == [
        "@ 3 lines as before",
        " line 3",
        "-line 4",
        "+other",
        " line 5",
        "@ 3 lines as before",
    ]
    assert unified(left, left) == []
