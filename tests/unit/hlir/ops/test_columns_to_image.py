"""Columns that are added up in an image, against single additions, and what they lower to."""

import itertools
from typing import Any

import numpy as np
import pytest

import glow_nb
from glow_nb.base.errors import VerifyError
from glow_nb.base.types import Array
from glow_nb.hlir import ops
from glow_nb.hlir.evaluate import evaluate
from glow_nb.hlir.graph import Function
from glow_nb.hlir.lower import lower
from glow_nb.hlir.ops.windows import Window

WINDOWS = [
    ((7,), Window((3,), (2,), (1, 0), (1,))),
    ((5, 6), Window((2, 3), (1, 2), (0, 1, 1, 0), (2, 1))),
    ((4, 3, 5), Window((2, 2, 2), (2, 1, 3), (1, 0, 0, 0, 1, 1), (1, 1, 2))),
    ((3, 2, 2, 3), Window((1, 2, 1, 2), (1, 1, 1, 1), (0,) * 8, (1, 1, 1, 1))),
]


def _function(image: tuple[int, ...], window: Window) -> tuple[Function, Array]:
    shape = (2, 3, *window.kernel, *window.places(image))
    columns = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    b = glow_nb.Builder("image")
    x = b.input("x", f"float32<{' x '.join(map(str, shape))}>")
    b.save(b.emit(ops.ColumnsToImage(x, image=image, **window.attributes)), "y")
    return b.function(), columns


def _added_up(image: tuple[int, ...], window: Window, columns: Any) -> Any:
    """Add one element after the other."""
    total: Any = np.zeros((*columns.shape[:2], *image))
    places = columns.shape[2 + len(image) :]
    for tap in itertools.product(*map(range, window.kernel)):
        for place in itertools.product(*map(range, places)):
            steps = zip(place, window.stride, tap, window.dilation, window.pads, strict=False)
            cell = tuple(o * s + t * d - begin for o, s, t, d, begin in steps)
            if all(0 <= c < n for c, n in zip(cell, image, strict=True)):
                total[(slice(None), slice(None), *cell)] += columns[
                    (slice(None), slice(None), *tap, *place)
                ]
    return total


@pytest.mark.parametrize(("image", "window"), WINDOWS)
def test_it_adds_up_what_the_window_has_seen(image: tuple[int, ...], window: Window) -> None:
    function, columns = _function(image, window)
    wanted = _added_up(image, window, columns)
    for made in (function, lower(function)):
        np.testing.assert_allclose(evaluate(made, {"x": columns})["y"], wanted, atol=1e-5)


def test_its_lowering_has_no_such_operator() -> None:
    function, _ = _function(*WINDOWS[1])
    assert not any(isinstance(node, ops.ColumnsToImage) for node in lower(function).nodes)


@pytest.mark.parametrize(
    ("shape", "changes", "complaint"),
    [
        ("1 x 1 x 2 x 2 x 3 x 4", {}, r"image \(4, 4\) needs float32<1 x 1 x 2 x 2 x 3 x 3>"),
        ("4", {}, "samples and channels"),
        ("1 x 1 x 2 x 2 x 3 x 3", {"image": ()}, "one or more sizes"),
        ("1 x 1 x 2 x 2 x 3 x 3", {"stride": (1, 0)}, "stride"),
        ("1 x 1 x 2 x 2 x 3 x 3", {"pads": (1, 1)}, "pads"),
        ("1 x 1 x 2 x 2 x 3 x 3", {"image": (1, 4)}, "does not fit"),
    ],
)
def test_columns_that_no_window_has_seen_are_refused(
    shape: str, changes: dict[str, Any], complaint: str
) -> None:
    x = glow_nb.Builder("f").input("x", f"float32<{shape}>")
    window: dict[str, Any] = {
        "kernel": (2, 2),
        "stride": (1, 1),
        "pads": (0, 0, 0, 0),
        "dilation": (1, 1),
    }
    with pytest.raises(VerifyError, match=complaint):
        ops.ColumnsToImage(x, **{"image": (4, 4), **window, **changes})


def test_strides_that_lead_nowhere_cost_nothing() -> None:
    window = Window((3, 3), (10**9, 2), (0, 0, 0, 0), (1, 1))
    function, columns = _function((4, 9), window)
    wanted = _added_up((4, 9), window, columns)
    b = glow_nb.Builder("spread")
    x = b.input("x", "float32<1 x 1 x 1 x 2>")
    filter = b.constant("w", np.ones((2, 3, 3, 1), np.float32))
    spread = ops.TransposedConvolution(
        x, filter, size=(4, 4), **Window((3, 3), (10**9,) * 2, (0,) * 4, (1, 1)).attributes
    )
    b.save(b.emit(spread), "y")
    feeds = {"x": np.ones((1, 1, 1, 2), np.float32)}
    np.testing.assert_allclose(evaluate(lower(function), {"x": columns})["y"], wanted, atol=1e-5)
    found = evaluate(lower(b.function()), feeds)["y"]
    np.testing.assert_array_equal(found, evaluate(b.function(), feeds)["y"])
