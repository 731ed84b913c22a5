"""Feeds are found by their names and fit the inputs, or are refused; what fits is not copied."""

from __future__ import annotations

from collections import ChainMap

import numpy as np
import pytest

from glow_nb.base.errors import FeedError, MemoryLimitError
from glow_nb.base.feeds import FeedCheck, name_feeds
from glow_nb.base.types import ElementKind, TensorType
from glow_nb.llir.program import Buffer

X = np.arange(6, dtype=np.float32).reshape(2, 3)
TYPE = TensorType(ElementKind.FLOAT32, (2, 3))
BOTH = FeedCheck.of([Buffer("x", TYPE), Buffer("y", TYPE)])


def test_arrays_that_fit_come_in_order_and_are_not_copied() -> None:
    y = X + 1
    for feeds in ({"y": y, "x": X}, ChainMap({"y": y}, {"x": X})):
        first, second = BOTH.arrays(feeds)
        assert first is X
        assert second is y


def test_a_read_only_array_is_not_copied() -> None:
    fixed = X.copy()
    fixed.flags.writeable = False
    assert np.shares_memory(BOTH.arrays({"x": fixed, "y": X})[0], fixed)


@pytest.mark.parametrize(
    "odd", [X.astype(">f4"), np.asfortranarray(X), np.repeat(X, 2, axis=1)[:, ::2], X.tolist()]
)
def test_other_orders_of_the_same_numbers_become_contiguous(odd: object) -> None:
    given = np.asarray(odd, np.float32) if isinstance(odd, list) else odd
    array, _ = BOTH.arrays({"x": given, "y": X})  # type: ignore[dict-item]
    assert array.flags.carray
    assert array.dtype == np.float32
    np.testing.assert_array_equal(array, X)


@pytest.mark.parametrize(
    ("feeds", "message"),
    [
        ({"x": X}, r"input\(s\) \['y'\] are not fed; the network has \['x', 'y'\]"),
        ({"x": X, "z": X}, r"unknown input 'z'; the inputs are \['x', 'y'\]"),
        ({"x": X, "y": X, 3: X}, "unknown input 3; the inputs are"),
        (X, r"the network has 2 inputs; feed them by their names, run\(\{'x': array, 'y': array"),
        ({"x": X, "y": X[0]}, r"'y': shape is \[3\], the network takes \[2, 3\]; reshape it"),
        ({"x": X, "y": X.astype(int)}, r"'y': dtype is int64, .* convert it with \.astype"),
    ],
)
def test_what_does_not_fit_is_refused(feeds: object, message: str) -> None:
    with pytest.raises(FeedError, match=message):
        BOTH.arrays(feeds)  # type: ignore[arg-type]


def test_a_bare_array_is_for_the_only_input() -> None:
    assert name_feeds({"x": TYPE}.keys(), X) == {"x": X}
    assert FeedCheck.of([Buffer("x", TYPE)]).arrays(X)[0] is X


def test_a_copy_for_which_there_is_no_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise MemoryError("no room")

    monkeypatch.setattr(np, "require", refuse)
    check = FeedCheck([("x", TensorType(ElementKind.FLOAT32, (4, 3)))])
    with pytest.raises(MemoryLimitError, match=r"input 'x': the system gave no more memory"):
        check.arrays({"x": np.broadcast_to(np.float32(1), (4, 3))})
