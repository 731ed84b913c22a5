"""Messages about an array that does not fit an input, and how to make it fit."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from glow_nb.base.errors import FeedError
from glow_nb.base.types import Array, ElementKind

MOST_TURNED_AXES = 6
"""Orders of more axes are not tried: there are too many."""

USUAL_ORDERS = ((0, 3, 1, 2), (0, 2, 3, 1), (2, 0, 1), (1, 2, 0), (0, 4, 1, 2, 3), (0, 2, 3, 4, 1))
"""Orders that move the channels to the front or to the back, with a batch before them or without;
they are tried first, as more than one may fit."""

Sizes = Sequence[int | str]


def wrong_kind(subject: str, value: object, array: Array, wanted: ElementKind) -> FeedError:
    """Return the error for *value*, read as *array*, whose numbers are not *wanted*."""
    if array.dtype.kind in "US":
        problem, advice = "it is text, and no array of numbers", "give the array itself"
        advice += ", as numpy.load(path) reads it from a .npy file"
    else:
        problem = f"dtype is {array.dtype}, the network takes {wanted.value}"
        is_array = isinstance(value, np.ndarray | np.generic)
        call = ".astype(" if is_array else "numpy.asarray(value, "
        advice = f"convert it with {call}{wanted.value!r})"
    return FeedError(f"{subject}: {problem}; {advice}")


def wrong_shape(subject: str, shape: Sequence[int], wanted: Sizes) -> FeedError:
    """Return the error for an array of *shape*; sizes of *wanted* that are text are open."""
    return FeedError(
        f"{subject}: shape is {list(shape)}, the network takes {list(wanted)}; "
        f"{_advice(shape, wanted)}"
    )


def fits(shape: Sequence[int], wanted: Sizes) -> bool:
    """Return whether an array of *shape* is one of the *wanted* sizes."""
    return len(shape) == len(wanted) and all(
        isinstance(want, str) or want == got for got, want in zip(shape, wanted, strict=True)
    )


def _advice(shape: Sequence[int], wanted: Sizes) -> str:
    order = _order(shape, wanted)
    if order is not None:
        return f"if its axes have another order, give array.transpose{order}"
    if fits((1, *shape), wanted):
        return "the first axis, the batch, is missing: give array[None]"
    if shape and shape[0] == 1 and fits(shape[1:], wanted):
        return "it has one axis too many: give array[0]"
    if shape and wanted and fits(shape[1:], wanted[1:]):
        return (
            f"the first size is fixed to {wanted[0]}: feed this number at a time, or compile a "
            "model with an open batch size"
        )
    return "reshape it, or make the network of a model with these sizes, or with open ones"


def _order(shape: Sequence[int], wanted: Sizes) -> tuple[int, ...] | None:
    """Return an order of axes that makes *shape* fit; None if there is none."""
    rank = len(shape)
    if rank != len(wanted) or rank > MOST_TURNED_AXES:
        return None
    usual = [order for order in USUAL_ORDERS if len(order) == rank]
    for order in (*usual, *itertools.permutations(range(rank))):
        if fits([shape[axis] for axis in order], wanted):
            return order
    return None
