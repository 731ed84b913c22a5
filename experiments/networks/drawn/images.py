"""Images: other sizes, samples at places, regions, boxes."""

from __future__ import annotations

from typing import Any

import numpy as np

from experiments.networks.drawn.drawing import Drawing, kind


def _resize(g: Drawing, mode: str, **attributes: Any) -> str:
    shape = np.array([1, g.whole(3, 128), g.whole(14, 96), g.whole(14, 96)])
    by = g.one_of(2, 2, 3, 4, 1.5, 0.5, 0.7)
    place = g.one_of("half_pixel", "half_pixel", "asymmetric", "align_corners")
    if mode == "nearest":
        attributes["nearest_mode"] = g.one_of("floor", "round_prefer_floor")
    sizes = np.concatenate([shape[:2], np.maximum(1, shape[2:] * by)]).astype(np.int64)
    return str(
        g.node(
            "Resize", g.input(*shape.tolist()), "", "", g.constant(sizes), mode=mode,
            coordinate_transformation_mode=place, **attributes,
        )
    )  # fmt: skip


@kind
def resize_nearest(g: Drawing) -> str:
    return _resize(g, "nearest")


@kind
def resize_linear(g: Drawing) -> str:
    return _resize(g, "linear")


@kind
def resize_cubic(g: Drawing) -> str:
    return _resize(g, "cubic", cubic_coeff_a=-0.75)


@kind
def resize_antialias(g: Drawing) -> str:
    shape = np.array([1, g.whole(3, 64), g.whole(28, 160), g.whole(28, 160)])
    sizes = np.concatenate([shape[:2], shape[2:] * g.one_of(0.25, 0.4, 0.5)]).astype(np.int64)
    mode = g.one_of("linear", "cubic")
    x = g.input(*shape.tolist())
    return str(g.node("Resize", x, "", "", g.constant(sizes), mode=mode, antialias=1))


def _grid_sample(g: Drawing, mode: str) -> str:
    channels, height, width = g.whole(3, 64), g.whole(14, 80), g.whole(14, 80)
    places = g.numbers.uniform(-1.1, 1.1, (1, height, width, 2)).astype(np.float32)
    padding = g.one_of("zeros", "border", "reflection")
    return str(
        g.node(
            "GridSample", g.input(1, channels, g.whole(14, 80), g.whole(14, 80)), g.feed(places),
            mode=mode, padding_mode=padding, align_corners=g.one_of(0, 1),
        )
    )  # fmt: skip


@kind
def grid_sample_linear(g: Drawing) -> str:
    return _grid_sample(g, "linear")


@kind
def grid_sample_cubic(g: Drawing) -> str:
    return _grid_sample(g, "cubic")


@kind
def grid_sample_nearest(g: Drawing) -> str:
    return _grid_sample(g, "nearest")


def _boxes(g: Drawing, count: int, size: float) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Return the corners y, x, y, x of boxes in an image of *size*."""
    ends = g.numbers.uniform(0, 0.8 * size, (count, 2))
    sides = g.numbers.uniform(0.05 * size, 0.2 * size, (count, 2))
    return np.concatenate([ends, ends + sides], axis=1).astype(np.float32)


@kind
def roi_align(g: Drawing) -> str:
    count, size = g.whole(4, 100), g.whole(14, 64)
    x = g.input(1, g.whole(16, 256), size, size)
    places = g.feed(np.zeros(count, np.int64))
    return str(
        g.node(
            "RoiAlign", x, g.feed(_boxes(g, count, size)), places, output_height=7, output_width=7,
            sampling_ratio=2, mode="avg",
        )
    )  # fmt: skip


@kind
def non_max_suppression(g: Drawing) -> str:
    count, classes = g.whole(100, 2000), g.one_of(1, 4, 20, 80)
    boxes = g.feed(_boxes(g, count, 1.0)[None])
    scores = g.feed(g.numbers.uniform(size=(1, classes, count)).astype(np.float32))
    limits = g.constant([g.whole(10, 100)])
    numbers = (np.array([n], np.float32) for n in (0.5, g.one_of(0.3, 0.6, 0.9)))
    return str(g.node("NonMaxSuppression", boxes, scores, limits, *map(g.constant, numbers)))


@kind
def affine_grid(g: Drawing) -> str:
    sizes = [1, 3, g.whole(32, 224), g.whole(32, 224)]
    turn = g.input(1, 2, 3)
    return str(g.node("AffineGrid", turn, g.constant(sizes), align_corners=g.one_of(0, 1)))


@kind
def columns_to_image(g: Drawing) -> str:
    kernel, size = g.one_of(2, 3), g.whole(8, 56)
    channels, count = g.whole(4, 32), (size - kernel + 1) ** 2
    x = g.input(1, channels * kernel**2, count)
    sizes = g.constant([size, size]), g.constant([kernel, kernel])
    return str(g.node("Col2Im", x, *sizes))


@kind
def columns_to_image_by_strides(g: Drawing) -> str:
    kernel, stride, pad = g.one_of(3, 4, 7), g.one_of(2, 3, 4), g.one_of(0, 1)
    channels, places = g.whole(4, 32), g.whole(8, 32)
    size = stride * (places - 1) + kernel - 2 * pad
    x = g.input(1, channels * kernel**2, places**2)
    sizes = g.constant([size, size]), g.constant([kernel, kernel])
    return str(g.node("Col2Im", x, *sizes, strides=[stride] * 2, pads=[pad] * 4))


@kind
def max_unpool(g: Drawing) -> str:
    x = g.input(1, g.whole(16, 64), 2 * g.whole(7, 56), 2 * g.whole(7, 56))
    pooled, places = g.node("MaxPool", x, results=2, kernel_shape=[2, 2], strides=[2, 2])
    return str(g.node("MaxUnpool", pooled, places, kernel_shape=[2, 2], strides=[2, 2]))
