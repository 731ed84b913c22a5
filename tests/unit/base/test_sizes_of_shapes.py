"""Sizes that the shapes of feeds tell."""

from __future__ import annotations

import pytest

from glow_nb.base.errors import FeedError
from glow_nb.base.size import Symbol
from glow_nb.base.sizes_of_shapes import sizes_of_shapes
from glow_nb.base.types import ElementKind, TensorType

PAST, NEW = Symbol("past", 8, 0, 16), Symbol("new", 1, 1, 4)


def _sizes(past: int, new: int, whole: int) -> dict[str, int]:
    sizes = {"keys": PAST.size, "query": NEW.size, "mask": PAST.size + NEW.size}
    types = {name: TensorType(ElementKind.FLOAT32, (size,)) for name, size in sizes.items()}
    shapes = {"keys": (past,), "query": (new,), "mask": (whole,)}
    return sizes_of_shapes(types, (PAST, NEW), shapes)


def test_each_symbol_is_told_by_an_input_that_has_it_alone() -> None:
    assert _sizes(3, 2, 5) == {"past": 3, "new": 2}


def test_a_sum_that_is_another_one_is_refused_with_the_sizes_that_it_is_of() -> None:
    message = r"input 'mask': its shape is \[6\], but .*past.* is \[5\] for new = 2, past = 3; feed"
    with pytest.raises(FeedError, match=message):
        _sizes(3, 2, 6)
