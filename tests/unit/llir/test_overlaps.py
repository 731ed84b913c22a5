"""Windows on one region: found are those that may overlap, without a look at most others."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glow_nb.base.types import ElementKind, TensorType
from glow_nb.llir.overlaps import Overlaps, best_period
from glow_nb.llir.program import Activation, Buffer, View
from glow_nb.llir.verify import may_overlap

BASE = Activation("base", TensorType(ElementKind.FLOAT32, (1000,)))


def view(shape: tuple[int, ...], start: int, steps: tuple[int, ...], base: Buffer = BASE) -> Buffer:
    return View("view", TensorType(ElementKind.FLOAT32, shape), base, start, steps)


ANY = st.builds(
    view,
    st.tuples(*[st.integers(0, 4)] * 3),
    st.integers(150, 250),
    st.tuples(*[st.integers(-12, 12)] * 3),
)
PARTS = st.builds(
    lambda width, start: view((3, 4, width), start, (60, 12, 1)),
    st.integers(1, 6),
    st.integers(0, 12),
)
WINDOWS = st.lists(st.one_of(ANY, PARTS, st.just(BASE)), max_size=12)


@given(WINDOWS, st.one_of(ANY, PARTS, st.just(BASE)), st.data())
def test_all_that_may_overlap_are_found_once(
    windows: list[Buffer], window: Buffer, data: st.DataObject
) -> None:
    periods = [0, best_period([*windows, window]), *map(abs, window.strides)]
    index: Overlaps[int] = Overlaps(data.draw(st.sampled_from(periods)))
    for number, other in enumerate(windows):
        index.add(other, number)
    wanted = [number for number, other in enumerate(windows) if may_overlap(other, window)]
    assert sorted(index.overlapping(window)) == wanted


@pytest.mark.parametrize(
    ("rows", "columns", "along"),
    [
        pytest.param(1, 1000, "rows", id="one after the other"),
        pytest.param(4, 1000, "columns", id="side by side in each row"),
        pytest.param(4, 1000, "both", id="tiles"),
    ],
)
def test_windows_that_are_apart_are_not_compared(
    rows: int, columns: int, along: str, compared: list[tuple[Buffer, Buffer]]
) -> None:
    base = Activation("base", TensorType(ElementKind.FLOAT32, (rows, columns)))
    height = 2 if along == "both" else rows
    windows = [
        view((height, 10), row * columns + column, (columns, 1), base)
        for row in range(0, rows, height)
        for column in range(0, columns, 10)
    ]
    index: Overlaps[Buffer] = Overlaps(best_period(windows))
    for window in windows:
        index.add(window, window)
    for window in windows:
        assert list(index.overlapping(window)) == [window]
    assert len(compared) <= 6 * len(windows)
