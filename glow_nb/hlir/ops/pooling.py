"""Pooling over sliding windows, channels last. Global pools are reductions over spatial axes."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar

import numpy as np
from typing_extensions import override

from glow_nb.base.costs import Cost
from glow_nb.base.types import Array, ElementKind, TensorType
from glow_nb.hlir.graph import Node, Value, define_node
from glow_nb.hlir.ops.families import FLOATS, NUMBERS, bounds_of, fitted, require_kind, wide
from glow_nb.hlir.ops.windows import Windowed, pad_spatial


@dataclass(frozen=True, eq=False, repr=False)
class WindowPool(Windowed):
    """Base of pools: combine the cells under a window that slides over ``[N, *in, C]``.

    The result is ``[N, *out, C]``, ``out = (in + begin + end - dilation * (kernel - 1) - 1) //
    stride + 1``.
    """

    input: Value

    @override
    def infer_type(self) -> TensorType:
        type = self.input.type
        out = self.window.checked(self, type)
        return type.with_shape((type.shape[0], *out, type.shape[-1]))

    def taps_of(self, x: Array, padding: Any) -> Any:
        """Yield each tap with the cells of *x* under it, cells of padding being *padding*."""
        padded = pad_spatial(x, self.pads, padding)
        out = self.type.shape[1:-1]
        return self.window.taps(padded, out)

    @override
    def cost(self) -> Cost:
        return Cost(others=self.type.size * prod(self.kernel))


@define_node("max_pool")
class MaxPool(WindowPool):
    """Largest element under the window, of zeros the first; padding is never chosen, NaN always.

    A window that lies in padding alone gives the least value of the kind (-inf for floats).
    """

    type_transparent: ClassVar[bool] = True

    @override
    def infer_type(self) -> TensorType:
        self.require(
            self.input.type.kind in NUMBERS,
            f"'input' is {self.input.type}, but must hold numbers",
        )
        return super().infer_type()

    @override
    def evaluate(self, input: Array) -> Array:
        least = bounds_of(self.type.kind)[0]
        result = np.full(self.type.shape, least, wide(input).dtype)
        for _, cells in self.taps_of(wide(input), least):
            result = np.where((result < cells) | np.isnan(cells), cells, result)
        return fitted(result, self.type)


@define_node("max_pool_with_argmax")
class MaxPoolWithArgmax(WindowPool):
    """Largest element under the window and its place: ``[values, indices]``, indices int64.

    Indices count elements of the whole tensor in ``[N, C, *in]`` order (ONNX's layout). Of equal
    elements the first in the window counts; a NaN is the largest, of several the last, as in
    PyTorch. A window in padding alone gives index -1.

    Attributes:
        column_major: Within a channel, count along the first spatial dimension first.
    """

    type_transparent: ClassVar[bool] = True
    column_major: bool = False

    @override
    def infer_types(self) -> tuple[TensorType, ...]:
        require_kind(self, "input", self.input.type.stored, NUMBERS)
        values = self.infer_type()
        return values, values.with_kind(ElementKind.INT64)

    @override
    def evaluate(self, input: Array) -> tuple[Array, Array]:
        out = self.type.shape[1:-1]
        best, place = largest_cells(self, input, out, column_major=self.column_major)
        return fitted(best, self.result_types[0]), fitted(place, self.result_types[1])


def largest_cells(
    pool: Any, input: Array, out: tuple[int, ...], *, column_major: bool = False
) -> tuple[Array, Array]:
    """Return the largest element under each window and its place, ``[N, *out, C]``.

    Takes the window from *pool*; places are those of :class:`MaxPoolWithArgmax`.
    """
    x, least = wide(input), bounds_of(ElementKind.of(input.dtype))[0]
    shape = (x.shape[0], *out, x.shape[-1])
    best, place = np.full(shape, least, x.dtype), np.full(shape, -1, np.int64)
    window, all_places = pool.window, places_of_elements(x.shape, column_major)
    cells_of = window.taps(pad_spatial(x, pool.pads, least), out)
    places_of = window.taps(pad_spatial(all_places, pool.pads, -1), out)
    for (_, cells), (_, places) in zip(cells_of, places_of, strict=True):
        is_better = (cells > best) | np.isnan(cells) | (place < 0)
        is_better &= places >= 0
        best = np.where(is_better, cells, best)
        place = np.where(is_better, places, place)
    return best, place


def places_of_elements(shape: tuple[int, ...], column_major: bool) -> Array:
    """Return the ``[N, C, *in]`` index of each element of an ``[N, *in, C]`` tensor."""
    batch, *spatial, channels = shape
    inner = np.arange(int(np.prod(spatial)), dtype=np.int64)
    grid = inner.reshape(spatial, order="F" if column_major else "C")
    planes = np.arange(batch * channels, dtype=np.int64).reshape(batch, channels)
    planes = planes.reshape(batch, *(1,) * len(spatial), channels)
    return planes * inner.size + grid[None, ..., None]


@define_node("avg_pool")
class AvgPool(WindowPool):
    """Mean of the elements under the window; padding counts as 0 if it counts at all.

    A window without a counted cell gives NaN.

    Attributes:
        count_padding: Divide by all cells, padding included; else by those of the input.
        uncounted: The number of outermost cells of the end padding in each spatial dimension that
            are never counted: those that rounding the result size up has added. Empty for none.
    """

    count_padding: bool = False
    uncounted: tuple[int, ...] = ()

    @override
    def infer_type(self) -> TensorType:
        require_kind(self, "input", self.input.type, FLOATS)
        result = super().infer_type()
        check_uncounted(self, self.pads, self.uncounted)
        return result

    @override
    def evaluate(self, input: Array) -> Array:
        sums = np.zeros(self.type.shape, np.float64)
        with np.errstate(all="ignore"):
            for _, cells in self.taps_of(wide(input), 0):
                sums += cells
            return fitted(sums / self.counts(), self.type)

    def counts(self) -> Array:
        """Return the number of counted cells under each window, ``[1, *out, 1]``."""
        return counted_cells(self, self.input.type.shape[1:-1], self.type.shape[1:-1])


def check_uncounted(node: Node, pads: tuple[int, ...], uncounted: tuple[int, ...]) -> None:
    """Raise VerifyError unless the *uncounted* cells of an average lie in the end *pads*."""
    ends = pads[len(pads) // 2 :]
    node.require(
        uncounted == ()
        or (
            len(uncounted) == len(ends)
            and all(0 <= n <= end for n, end in zip(uncounted, ends, strict=True))
        ),
        f"uncounted {uncounted} must be empty or within the end pads {ends}",
    )


def counted_cells(pool: Any, spatial: tuple[int, ...], out: tuple[int, ...]) -> Array:
    """Return how many cells an average *pool* over *spatial* sizes counts, ``[1, *out, 1]``.

    Takes the window, ``count_padding`` and ``uncounted`` from *pool*.
    """
    rank = len(spatial)
    skipped = pool.uncounted or (0,) * rank
    ends = tuple(end - n for end, n in zip(pool.pads[rank:], skipped, strict=True))
    counted = np.ones((1, *spatial, 1))
    counted = pad_spatial(counted, (*pool.pads[:rank], *ends), float(pool.count_padding))
    counted = pad_spatial(counted, (*(0,) * rank, *skipped), 0.0)
    views = pool.window.taps(counted, out)
    return np.asarray(sum(view for _, view in views))
