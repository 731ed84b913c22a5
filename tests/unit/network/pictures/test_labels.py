"""Labels cover neither each other nor a dot nor what is taken."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("matplotlib", exc_type=ImportError)

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.path import Path
from matplotlib.text import Annotation
from matplotlib.transforms import Bbox

from glow_nb.network.pictures.labels import Dot, write_labels


def new_axes() -> tuple[Axes, Any]:
    figure = Figure(figsize=(6, 4))
    canvas: Any = FigureCanvasAgg(figure)
    axes = figure.subplots()
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)
    return axes, canvas.get_renderer()


def label_boxes(axes: Axes, renderer: Any) -> list[Bbox]:
    texts = [text for text in axes.texts if isinstance(text, Annotation) and text.get_text()]
    return [text.get_window_extent(renderer) for text in texts]


@settings(max_examples=settings().max_examples // 4)
@given(st.integers(0, 2**32 - 1), st.integers(1, 30))
def test_labels_cover_nothing(seed: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    places = rng.uniform(0.3, 0.7, (count, 2)).tolist()
    dots = [Dot(x, y, 4.0, f"layer{i}") for i, (x, y) in enumerate(places)]
    axes, renderer = new_axes()
    corner = Bbox([[0, 0], [150, 100]])
    written = write_labels(axes, dots, [corner], most=count, fontsize=7)
    boxes = label_boxes(axes, renderer)
    assert len(boxes) == written >= 1
    for one, other in itertools.combinations([*boxes, corner], 2):
        assert not one.overlaps(other)
    for dot in dots:
        x, y = axes.transData.transform((dot.x, dot.y))
        assert not any(box.contains(x, y) for box in boxes)


def test_the_first_dots_are_labelled() -> None:
    axes, _ = new_axes()
    dots = [Dot(0.2, 0.5, 2.0, "first"), Dot(0.8, 0.5, 2.0, "second")]
    assert write_labels(axes, dots, [], most=1) == 1
    assert [text.get_text() for text in axes.texts] == ["first"]


def test_no_label_covers_a_line_that_is_drawn() -> None:
    axes, renderer = new_axes()
    line = Path([(0, 200), (600, 200)])
    dots = [Dot(x / 10, 0.5, 2.0, f"layer{x}") for x in range(2, 9)]
    written = write_labels(axes, dots, [], len(dots), [line], fontsize=7)
    boxes = label_boxes(axes, renderer)
    assert len(boxes) == written >= 4
    assert not any(line.intersects_bbox(box, filled=False) for box in boxes)
