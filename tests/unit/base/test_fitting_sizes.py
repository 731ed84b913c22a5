"""Sizes for which guards hold are told as numbers."""

from __future__ import annotations

from glow_nb.base.fitting_sizes import described_fits, nearest_fits
from glow_nb.base.size import Symbol, same

HEIGHT = Symbol("height", 64, 1, 1000)
_halves = HEIGHT.size
for _ in range(5):
    _halves = (_halves + 1) // 2
assert same((HEIGHT.size + 3) // 4, 8 * _halves)
GUARDS = tuple(HEIGHT.guards)


def test_the_first_sizes_that_fit_are_listed() -> None:
    assert described_fits(HEIGHT, GUARDS) == "29..32, 61..64, 93..96, ..."
    assert described_fits(HEIGHT, ()) == ""


def test_the_nearest_sizes_that_fit_are_named() -> None:
    wanted = ", the nearest are height = 64 or height = 93"
    assert nearest_fits(GUARDS, {"height": 65}) == wanted
    assert nearest_fits(GUARDS, {"height": 1}) == ", the nearest are height = 29"
    assert nearest_fits(GUARDS, {"height": 64}) == ""


def test_nothing_is_said_of_sizes_that_depend_on_one_another() -> None:
    a, b = Symbol("a", 2), Symbol("b", 2)
    assert same(a.size, b.size)
    assert nearest_fits(tuple(a.guards), {"a": 2, "b": 3}) == ""
