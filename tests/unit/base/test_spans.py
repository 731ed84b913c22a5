"""Intervals are found by what they overlap, all of them and no others."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import override

from glow_nb.base.spans import Spans

INTERVALS = st.lists(st.tuples(st.integers(-40, 40), st.integers(-3, 70)), max_size=30)


@given(INTERVALS, st.integers(-40, 40), st.integers(-3, 70))
def test_all_that_overlap_are_found_once(
    intervals: list[tuple[int, int]], begin: int, length: int
) -> None:
    spans: Spans[int] = Spans()
    for number, (first, size) in enumerate(intervals):
        spans.add(first, first + size, number)
    wanted = [
        number
        for number, (first, size) in enumerate(intervals)
        if set(range(first, first + size)) & set(range(begin, begin + length))
    ]
    assert sorted(spans.overlapping(begin, begin + length)) == wanted


def test_intervals_that_touch_do_not_overlap() -> None:
    spans: Spans[str] = Spans()
    spans.add(0, 8, "left")
    spans.add(8, 16, "right")
    assert list(spans.overlapping(7, 8)) == ["left"]
    assert list(spans.overlapping(8, 9)) == ["right"]


def test_a_look_up_among_many_looks_at_few() -> None:
    class Counted(list[tuple[int, int]]):
        looks = 0

        @override
        def __getitem__(self, place: Any) -> Any:
            Counted.looks += 1
            return super().__getitem__(place)

        @override
        def __iter__(self) -> Any:
            for place in range(len(self)):
                yield self[place]

    spans: Spans[int] = Spans()
    for number in range(1000):
        spans.add(8 * number, 8 * number + 8, number)
    for same in spans._classes.values():
        same.rest = Counted(same.rest)
    assert list(spans.overlapping(7990, 7992)) == [998]
    assert Counted.looks <= 3
