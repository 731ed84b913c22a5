"""Where each element of a resized axis comes from: places and weights, for one axis at a time.

Interpolation is separable, so ``Resize`` is a sequence of these, one for each axis that changes.
The definitions are those of the ONNX operator ``Resize``; ``docs/onnx.md`` says where PyTorch's are
others.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from glow_nb.base.types import Array
from glow_nb.hlir.graph import Value


@dataclass(frozen=True)
class Sampling:
    """The kind of sampling.

    Attributes:
        mode: ``nearest``, ``linear`` or ``cubic``.
        coordinates: How coordinates of the result map to coordinates of the input.
        rounding: For ``nearest``: round_prefer_floor, round_prefer_ceil, floor, ceil, or
            floor_or_ceil, which is ceil on axes that shrink.
        cubic_a: Shape of the cubic kernel.
        exclude_outside: Weights of places outside the input count as 0.
        antialias: Widen the kernel when the axis shrinks.
    """

    mode: str
    coordinates: str
    rounding: str = "round_prefer_floor"
    cubic_a: float = -0.75
    exclude_outside: bool = False
    antialias: bool = False


@dataclass(frozen=True)
class Axis:
    """One axis to resize.

    Attributes:
        size: Its elements.
        result_size: The elements of the result.
        scale: The ratio as the model gives it, NaN if it is data-dependent.
        roi: The part that is cropped first; 0 is the first element, 1 the last.
        as_pytorch: Compute the places as PyTorch does.
        computed: The ratio as a float64 that a run computes, in a vector.
    """

    size: int
    result_size: int
    scale: float
    roi: tuple[float, float] = (0.0, 1.0)
    as_pytorch: bool = False
    computed: Value | None = None

    @property
    def length(self) -> float:
        """The resized length in the formulas: ONNX's own tests do not round it."""
        return float(self.result_size) if self.as_pytorch else self.scale * self.size


def source_coordinates(axis: Axis, coordinates: str) -> Any:
    """Return the place in the input, as float64, of each element of the result.

    Raises:
        KeyError: There is no such mode of *coordinates*.
    """
    y = np.arange(axis.result_size, dtype=np.float64)
    length = axis.length
    half_pixel = (y + 0.5) / axis.scale - 0.5
    last = axis.size - 1
    start, end = axis.roi
    by_mode: dict[str, Callable[[], Any]] = {
        "half_pixel": lambda: half_pixel,
        "pytorch_half_pixel": lambda: half_pixel if length > 1 else np.zeros_like(y),
        "asymmetric": lambda: _steps(axis),
        "tf_half_pixel_for_nn": lambda: (y + 0.5) / axis.scale,
        "align_corners": lambda: y * last / (length - 1) if length != 1 else np.zeros_like(y),
        "half_pixel_symmetric": lambda: (
            axis.size / 2 * (1 - axis.result_size / length) + half_pixel
        ),
        "tf_crop_and_resize": lambda: (
            start * last
            + (y * (end - start) * last / (length - 1) if length != 1 else (end - start) * last / 2)
        ),
    }
    with np.errstate(all="ignore"):
        return by_mode[coordinates]() + np.zeros_like(y)


def _steps(axis: Axis) -> Any:
    """Return multiples of ``1 / scale``.

    PyTorch rounds each of them to float32, which decides what the nearest element is where the
    exact product is a whole number.
    """
    y = np.arange(axis.result_size)
    if axis.as_pytorch:
        return y.astype(np.float32) * np.float32(1 / axis.scale)
    return y / axis.scale


def nearest_places(axis: Axis, sampling: Sampling) -> Array:
    """Return the index of the input's element for each element of the result."""
    x = source_coordinates(axis, sampling.coordinates)
    rounded = {
        "round_prefer_floor": np.ceil(x - 0.5),
        "round_prefer_ceil": np.floor(x + 0.5),
        "floor": np.floor(x),
        "ceil": np.ceil(x),
        "floor_or_ceil": np.ceil(x) if axis.scale < 1 else np.floor(x),
    }[sampling.rounding]
    places: Array = np.clip(np.nan_to_num(rounded), 0, axis.size - 1).astype(np.int64)
    return places


def weighted_places(axis: Axis, sampling: Sampling) -> tuple[Array, Array]:
    """Return indices and weights, ``[result, taps]`` each: the result is the weighted sum."""
    x = np.nan_to_num(source_coordinates(axis, sampling.coordinates))
    kernel, _ = _kernel(sampling)
    squeeze = squeeze_of(axis, sampling)
    taps = taps_of(axis, sampling)
    # A whole number counts as the right end of the cell before it.
    base = np.ceil(x) - 1
    offsets = np.array(taps)[None, :]
    weights = kernel((offsets - (x - base)[:, None]) * squeeze)
    places = (base[:, None] + offsets).astype(np.int64)
    if sampling.antialias:
        weights = weights / weights.sum(axis=1, keepdims=True)
    if sampling.exclude_outside:
        weights = np.where((places < 0) | (places >= axis.size), 0.0, weights)
        total = weights.sum(axis=1, keepdims=True)
        weights = weights / np.where(total == 0, 1.0, total)
    return np.clip(places, 0, axis.size - 1), weights


def tap_count(axis: Axis, sampling: Sampling) -> int:
    """Return how many elements of the input each element of the result is made of."""
    taps = taps_of(axis, sampling)
    return taps.stop - taps.start  # len() of a range ends at 2 ** 63


def taps_of(axis: Axis, sampling: Sampling) -> range:
    """Return the elements that count, from the one before a place on."""
    _, reach = _kernel(sampling)
    first = math.floor(-reach / squeeze_of(axis, sampling)) + 1
    return range(first, 2 - first)


def squeeze_of(axis: Axis, sampling: Sampling) -> float:
    """Return how much narrower the kernel would be without antialias.

    With it the kernel is as wide as the elements that fall into one.
    """
    return min(axis.scale, 1.0) if sampling.antialias else 1.0


def outside(axis: Axis, sampling: Sampling) -> Array:
    """Return which elements of the result lie outside the input (cropping only)."""
    if sampling.coordinates != "tf_crop_and_resize":
        return np.zeros(axis.result_size, np.bool_)
    x = source_coordinates(axis, sampling.coordinates)
    mask: Array = (x < 0) | (x > axis.size - 1)
    return mask


def _kernel(sampling: Sampling) -> tuple[Callable[[Any], Any], int]:
    """Return the weight as a function of the distance, and how far it reaches."""
    if sampling.mode == "linear":
        return lambda distance: np.clip(1 - np.abs(distance), 0, 1), 1
    a = sampling.cubic_a

    def cubic(distance: Any) -> Any:
        d = np.abs(distance)
        near = ((a + 2) * d - (a + 3)) * d * d + 1
        far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
        return np.where(d <= 1, near, np.where(d < 2, far, 0.0))

    return cubic, 2
