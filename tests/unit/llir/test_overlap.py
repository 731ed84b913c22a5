"""When two views may touch the same element: never missed, not claimed for parts of a concat."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from glow_nb.base.types import ElementKind, TensorType
from glow_nb.llir.program import Activation, View
from glow_nb.llir.verify import may_overlap

BASE = Activation("base", TensorType(ElementKind.FLOAT32, (1000,)))


def view(shape: tuple[int, ...], start: int, steps: tuple[int, ...]) -> View:
    return View("view", TensorType(ElementKind.FLOAT32, shape), BASE, start, steps)


def elements(of: View) -> set[int]:
    """Return every element that a view touches."""
    places = {of.offset}
    for size, stride in zip(of.type.shape, of.strides, strict=True):
        places = {place + index * stride for place in places for index in range(size)}
    return places


def test_parts_of_a_concat_do_not_overlap() -> None:
    left, right = view((4, 5, 3), 0, (35, 7, 1)), view((4, 5, 4), 3, (35, 7, 1))
    assert not may_overlap(left, right)


def test_a_part_that_is_read_backwards_does_not_overlap_the_other() -> None:
    left, right = view((4, 5, 2), 1, (35, 7, -1)), view((4, 5, 4), 2, (-35, 7, 1))
    assert not may_overlap(left, right)
    assert may_overlap(left, view((4, 5, 4), 6, (35, 7, -2)))


def test_neighbouring_parts_that_share_a_column_overlap() -> None:
    left, right = view((4, 4), 0, (7, 1)), view((4, 4), 3, (7, 1))
    assert may_overlap(left, right)


VIEWS = st.builds(
    view,
    st.tuples(*[st.integers(1, 4)] * 3),
    st.integers(150, 250),
    st.tuples(*[st.integers(-12, 12)] * 3),
)


@given(VIEWS, VIEWS)
def test_no_overlap_is_missed(left: View, right: View) -> None:
    if elements(left) & elements(right):
        assert may_overlap(left, right)
