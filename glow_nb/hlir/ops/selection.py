"""Operators that choose some of many: their results have the shape of a bound, and a count.

The rows after the chosen ones are zero, so that they are valid as indices.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from typing_extensions import override

from glow_nb.base.costs import Cost
from glow_nb.base.types import Array, ElementKind, TensorType
from glow_nb.hlir.graph import Node, Value, define_node
from glow_nb.hlir.ops.families import COMPUTED, require_kind

COUNT = TensorType(ElementKind.INT64, ())
_FLOAT32 = frozenset({ElementKind.FLOAT32})


@define_node("non_zero")
class NonZero(Node):
    """The places of the elements that are not zero, in row-major order, and their number.

    ``places[d, i]`` is the coordinate in dimension d of the i-th of them.
    """

    input: Value

    @override
    def infer_types(self) -> tuple[TensorType, ...]:
        type = self.input.type
        require_kind(self, "input", type, COMPUTED)
        self.require(type.rank > 0, f"'input' is {type}; give it a dimension")
        return TensorType(ElementKind.INT64, (type.rank, type.size)), COUNT

    @override
    def evaluate(self, input: Array) -> tuple[Array, ...]:
        found = np.array(np.nonzero(input), np.int64)
        places = np.zeros(self.result_types[0].shape, np.int64)
        places[:, : found.shape[1]] = found
        return places, np.array(found.shape[1], np.int64)


@define_node("non_max_suppression")
class NonMaxSuppression(Node):
    """Keep the box of the best score among those that overlap, for each batch and class.

    Takes the best box that is left, and drops those of which the intersection with it is more than
    *overlap* of the union; again and again, until *limit* boxes are taken. Equal scores go by the
    box's number.

    Operands:
        boxes: float32 ``[batches, boxes, 4]``: two corners ``y x y x``, or if *is_centered*
            ``x y width height`` with the centre.
        scores: float32 ``[batches, classes, boxes]``.
        overlap: A float32 number.
        threshold: A float32 number: boxes whose score is not above it do not take part.

    Results: int64 rows ``batch class box``, and their number.

    Attributes:
        limit: The most boxes that are taken for each batch and class.
        is_centered: Whether boxes are given by centre and size, and not by two corners.
    """

    boxes: Value
    scores: Value
    overlap: Value
    threshold: Value
    limit: int
    is_centered: bool = False

    @override
    def infer_types(self) -> tuple[TensorType, ...]:
        for name in ("boxes", "scores", "overlap", "threshold"):
            require_kind(self, name, getattr(self, name).type, _FLOAT32)
        boxes, scores = self.boxes.type.shape, self.scores.type.shape
        fits = len(boxes) == len(scores) == 3 and boxes[2] == 4
        self.require(
            fits and (boxes[0], boxes[1]) == (scores[0], scores[2]),
            f"boxes {self.boxes.type} and scores {self.scores.type} must be [batches, boxes, 4] "
            "and [batches, classes, boxes]",
        )
        for name in ("overlap", "threshold"):
            type = getattr(self, name).type
            self.require(type.rank == 0, f"{name!r} is {type}, but must be one number of rank 0")
        self.require(self.limit >= 0, f"limit is {self.limit}, but must not be negative")
        bound = scores[0] * scores[1] * min(self.limit, scores[2])
        return TensorType(ElementKind.INT64, (bound, 3)), COUNT

    @override
    def evaluate(
        self, boxes: Array, scores: Array, overlap: Array, threshold: Array
    ) -> tuple[Array, ...]:
        rows = []
        for batch, corners in enumerate(_corners(boxes, self.is_centered)):
            for number, line in enumerate(scores[batch]):
                chosen = _suppressed(corners, line, overlap, threshold, self.limit)
                rows += [(batch, number, box) for box in chosen]
        places = np.zeros(self.result_types[0].shape, np.int64)
        places[: len(rows)] = np.array(rows, np.int64).reshape(len(rows), 3)
        return places, np.array(len(rows), np.int64)

    @override
    def cost(self) -> Cost:
        """Count one comparison a score; how many boxes are compared with others, a run shows."""
        return Cost(others=self.scores.type.size)


@define_node("unique")
class Unique(Node):
    """The distinct rows of a matrix: ``input[indices[:number]]`` are all of them, each once.

    Numbers are compared column by column; NaN equals NaN and is the greatest.

    Attributes:
        sorted: The least row comes first; if not, that which comes first in the input.

    Results: int64 ``indices`` of the first occurrence of each; ``inverse``, which distinct row each
    row is; ``counts``, how often each occurs; and their number.
    """

    input: Value
    sorted: bool = True

    @override
    def infer_types(self) -> tuple[TensorType, ...]:
        type = self.input.type
        require_kind(self, "input", type, COMPUTED)
        self.require(type.rank == 2, f"'input' is {type}, but must be a matrix")
        vector = TensorType(ElementKind.INT64, type.shape[:1])
        return vector, vector, vector, COUNT

    @override
    def evaluate(self, input: Array) -> tuple[Array, ...]:
        first, inverse = _distinct(input)
        order = first if self.sorted else np.sort(first)
        rank = {row: index for index, row in enumerate(order.tolist())}
        inverse = np.array([rank[row] for row in first[inverse].tolist()], np.int64)
        indices, counts = (np.zeros(len(input), np.int64) for _ in range(2))
        indices[: len(order)] = order
        counts[: len(order)] = np.bincount(inverse, minlength=len(order))
        return indices, inverse, counts, np.array(len(order), np.int64)


def _distinct(rows: Array) -> tuple[Array, Array]:
    """Return the first occurrence of each distinct row, in order, and which of them each row is."""
    codes = np.zeros((len(rows), rows.shape[1]), np.int64)
    for column in range(rows.shape[1]):
        numbers = rows[:, column]
        if ElementKind.of(rows.dtype).is_float:
            numbers = numbers.astype(np.float64)
        codes[:, column] = np.unique(numbers, return_inverse=True)[1].reshape(-1)
    if not rows.shape[1]:
        codes = np.zeros((len(rows), 1), np.int64)
    _, first, inverse = np.unique(codes, axis=0, return_index=True, return_inverse=True)
    return first, inverse.reshape(-1)


def _corners(boxes: Array, is_centered: bool) -> Array:
    """Return boxes as ``[..., least and greatest, two directions]``."""
    if is_centered:
        centre, half = boxes[..., :2], boxes[..., 2:] / np.float32(2)
        return np.stack([centre - half, centre + half], -2)
    first, second = boxes[..., :2], boxes[..., 2:]
    return np.stack([np.minimum(first, second), np.maximum(first, second)], -2)


def _suppressed(
    corners: Array, scores: Array, overlap: Array, threshold: Array, limit: int
) -> list[Any]:
    left = np.flatnonzero(scores > threshold)
    chosen: list[Any] = []
    while left.size and len(chosen) < limit:
        best = left[np.argmax(scores[left])]
        chosen.append(best)
        left = left[left != best]
        left = left[~(_overlaps(corners[best], corners[left]) > overlap)]
    return chosen


def _overlaps(box: Array, others: Array) -> Array:
    """Return intersection over union of *box* and each of *others*; 0 where there is none."""
    low, high = np.maximum(box[0], others[:, 0]), np.minimum(box[1], others[:, 1])
    sides = np.maximum(high - low, 0)
    common = sides[:, 0] * sides[:, 1]
    area = np.prod(box[1] - box[0])
    areas = np.prod(others[:, 1] - others[:, 0], axis=1)
    union = area + areas - common
    is_real = (common > 0) & (area > 0) & (areas > 0) & (union > 0)
    return np.where(is_real, common / np.where(is_real, union, 1), np.float32(-np.inf))
