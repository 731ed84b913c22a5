"""How much text goes into a page."""

from __future__ import annotations

import pytest

from glow_nb.report import room
from glow_nb.report.data import Item, Stage
from glow_nb.report.room import Room


def stage(count: int, letters: int) -> Stage:
    items = tuple(Item(f"n{n}", "relu", "", "x" * letters) for n in range(count))
    return Stage("graph", "Graph", "", items)


def test_short_texts_stay() -> None:
    small = stage(10, 100)
    assert Room().stage(small) == small
    assert Room().source("def kernel(): ...") == "def kernel(): ..."
    assert Room().difference(["-a", "+b"]) == ("-a", "+b")
    assert Room().stage(stage(0, 0)) == stage(0, 0)


def test_a_single_long_text_is_cut_and_says_so() -> None:
    (item,) = Room().stage(stage(1, 10_000)).items
    assert item.text.endswith("... 6000 letters are left out")
    source = Room().source("y" * 100_000)
    assert source.endswith("... 40000 letters are left out")


def test_texts_of_many_items_share_the_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "MOST_LETTERS", 100_000)
    cut = Room().stage(stage(50, 1000))
    assert all(item.text.startswith("x" * 160) for item in cut.items)
    assert sum(len(item.text) for item in cut.items) < 20_000
    half = Room(2).stage(stage(30, 1000))
    assert sum(len(item.text) for item in half.items) < 10_000


def test_differences_stop_where_there_is_no_room_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "MOST_LETTERS", 400)
    left = Room()
    assert left.difference(["-" + "a" * 79]) == ("-" + "a" * 79,)
    (said,) = left.difference(["-" + "a" * 79])
    assert said.startswith("@ left out")
    assert left.source("z" * 200).startswith("z" * 100)
