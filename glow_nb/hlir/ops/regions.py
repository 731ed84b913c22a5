"""Reading regions of images at one size: what detectors cut out of their features."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from typing_extensions import override

from glow_nb.base.costs import Cost
from glow_nb.base.schema import OneOf
from glow_nb.base.size import same
from glow_nb.base.types import Array, TensorType
from glow_nb.hlir.graph import Node, Value, define_node
from glow_nb.hlir.ops.families import FLOATS, INDICES, fits, fitted, require_kind, wide
from glow_nb.hlir.ops.gather import clamped

FARTHEST = 1e15
"""Samples are numbered up to here; float64 coordinates beyond it are not distinguished."""


@dataclass(frozen=True)
class Samples:
    """Where one bin is sampled along one axis of *size* elements: at ``base + (i + 0.5) * step``.

    A sample less than one element outside counts as on the edge, one farther away is 0.
    """

    base: float
    step: float
    count: float
    size: int

    def inside(self) -> tuple[Array, Array]:
        """Return the two elements around each sample that is not 0, and their shares."""
        first, last = 0.0, self.count
        if self.step > 0:
            first = _limited((-1 - self.base) / self.step - 1.5, self.count)
            last = _limited((self.size - self.base) / self.step + 1.5, self.count)
        places = self.base + (np.arange(int(first), int(last)) + 0.5) * self.step
        places = places[(places >= -1) & (places <= self.size)].clip(0, self.size - 1)
        low = np.floor(places).astype(np.int64)
        high = np.minimum(low + 1, self.size - 1)
        share = places - low
        return np.stack([low, high], axis=-1), np.stack([1 - share, share], axis=-1)


def _limited(number: float, count: float) -> float:
    """Return *number* between 0 and *count*, 0 for NaN."""
    return min(number, count, FARTHEST) if number > 0 else 0.0


@define_node("roi_align")
class RoiAlign(Node):
    """Sample regions: ``[N, H, W, C]`` and ``R`` boxes to ``[R, height, width, C]``.

    A box is ``[left, top, right, bottom]``, times *scale* in elements; it is cut into bins, and
    each is sampled on a grid by linear interpolation. ``batch`` says for each box which image it
    belongs to, clamped like any index.

    Attributes:
        height: Bins of a region from top to bottom.
        width: Bins from left to right.
        ratio: Samples of a bin along each axis; 0 takes one for each element, rounded up.
        scale: Elements for each unit of the boxes.
        half_pixel: The middle of the first element is at 0.5; else at 0, and no box is smaller than
            one element.
        mode: ``avg`` takes the mean of the samples, ``max`` the largest weighted element.
    """

    input: Value
    boxes: Value
    batch: Value
    height: int
    width: int
    ratio: int = 0
    scale: float = 1.0
    half_pixel: bool = True
    mode: Annotated[str, OneOf("avg", "max")] = "avg"

    @override
    def infer_type(self) -> TensorType:
        type, boxes, batch = self.input.type, self.boxes.type, self.batch.type
        require_kind(self, "input", type, FLOATS)
        require_kind(self, "batch", batch, INDICES)
        self.require(type.rank == 4, f"'input' must be [N, H, W, C], got {type}")
        wanted = TensorType(type.kind, (*batch.shape, 4))
        self.require(
            batch.rank == 1 and fits(boxes, wanted),
            f"boxes {boxes} and batch {batch} must be [R, 4], [R]",
        )
        self.require(
            min(self.height, self.width) >= 1 and self.ratio >= 0,
            f"{self.height} by {self.width} bins of {self.ratio} samples cannot be",
        )
        self.require(
            0 in batch.shape or not any(same(size, 0) for size in type.shape[:3]),
            f"there are boxes, but {type} is empty",
        )
        return type.with_shape((*batch.shape, self.height, self.width, type.shape[3]))

    @override
    def evaluate(self, input: Array, boxes: Array, batch: Array) -> Array:
        x, result = wide(input), np.zeros(self.type.shape)
        images = clamped(batch, x.shape[0])
        # As exporters and engines round: where a box ends decides how many samples there are.
        single = np.dtype(np.float64 if boxes.dtype == np.float64 else np.float32)
        scale, offset = np.array([self.scale, 0.5 if self.half_pixel else 0], single)
        scaled = boxes.astype(single) * scale - offset
        with np.errstate(all="ignore"):
            for region, image, (left, top, right, bottom) in zip(
                result, images, scaled.astype(np.float64).tolist(), strict=True
            ):
                rows = self._bins(top, bottom - top, self.height, x.shape[1])
                columns = self._bins(left, right - left, self.width, x.shape[2])
                for i, row in enumerate(rows):
                    for j, column in enumerate(columns):
                        region[i, j] = self._sampled(x[image], row, column)
        return fitted(result, self.type)

    def _bins(self, start: float, length: float, count: int, size: int) -> list[Samples]:
        """Return the samples of *count* bins along one axis."""
        if not self.half_pixel and not length > 1:
            length = 1.0
        bin = length / count
        samples = float(self.ratio)
        if not self.ratio:
            samples = float(math.ceil(min(bin, 1e300))) if bin > 0 else 0.0
        step = bin / samples if samples else 0.0
        return [Samples(start + i * bin, step, samples, size) for i in range(count)]

    def _sampled(self, image: Array, row: Samples, column: Samples) -> Array:
        """Return the mean or the largest of the samples of one bin, ``[C]``."""
        (ys, shares), (xs, others) = row.inside(), column.inside()
        weights = shares[:, None, :, None, None] * others[None, :, None, :, None]
        taps = image[ys[:, None, :, None], xs[None, :, None, :]] * weights
        if self.mode == "avg":
            mean: Array = taps.sum(axis=(0, 1, 2, 3)) / max(row.count * column.count, 1)
            return mean
        found = taps.reshape(-1, image.shape[-1])
        if len(ys) * len(xs) < row.count * column.count or not len(found):
            found = np.concatenate([found, np.zeros((1, image.shape[-1]))])
        largest: Array = found.max(axis=0)
        return largest

    @override
    def cost(self) -> Cost:
        """Count four elements a sample; one sample a bin, if a run decides how many there are."""
        return Cost(4 * self.type.size * max(self.ratio, 1) ** 2)
