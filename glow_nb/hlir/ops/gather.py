"""Reading and writing elements at places that other tensors name.

An index counts from the front, or from the end if negative. An index outside the axis is a mistake
of the model; it is clamped to the nearest element, so that no memory but the tensor's is touched.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from typing_extensions import override

from glow_nb.base.size import same_shape, surely
from glow_nb.base.types import Array, TensorType
from glow_nb.hlir.graph import Node, Value, define_node
from glow_nb.hlir.ops.families import INDICES, fitted, require_axis, require_kind


def clamped(indices: Array, size: int) -> Any:
    """Return *indices* into an axis of *size*, negative ones counted from the end, clamped."""
    places = indices.astype(np.int64)
    return np.clip(np.where(places < 0, places + size, places), 0, size - 1)


def require_along(node: Node, type: TensorType, indices: TensorType, axis: int) -> None:
    """Raise VerifyError unless *indices* can name single elements of *type* along *axis*."""
    require_axis(node, axis, type.rank)
    node.require(
        indices.rank == type.rank
        and all(
            n <= m if number != axis else m > 0 or n == 0
            for number, (m, n) in enumerate(zip(type.shape, indices.shape, strict=True))
        ),
        f"indices {indices} do not fit {type} along axis {axis}",
    )


@define_node("gather")
class Gather(Node):
    """Take whole slices: ``result[a..., i..., b...] = input[a..., indices[i...], b...]``.

    The result's shape is that of the input with *axis* replaced by the shape of ``indices``,
    which are int32 or int64.

    Attributes:
        axis: The axis of the input that the indices count along.
    """

    type_transparent: ClassVar[bool] = True
    input: Value
    indices: Value
    axis: int = 0

    @override
    def infer_type(self) -> TensorType:
        type, indices = self.input.type, self.indices.type
        require_kind(self, "indices", indices, INDICES)
        require_axis(self, self.axis, type.rank)
        self.require(
            not surely(type.shape[self.axis], "<=", 0) or indices.size == 0,
            f"axis {self.axis} of {type} is empty, but there are indices {indices}",
        )
        before, after = type.shape[: self.axis], type.shape[self.axis + 1 :]
        return type.with_shape((*before, *indices.shape, *after))

    @override
    def evaluate(self, input: Array, indices: Array) -> Array:
        places = clamped(indices, input.shape[self.axis])
        return fitted(np.take(input, places, axis=self.axis), self.type)


@define_node("gather_elements")
class GatherElements(Node):
    """Take single elements: ``result[..., i, ...] = input[..., indices[..., i, ...], ...]``.

    The index replaces the place along *axis*. ``indices`` and the result have one shape, of the
    input's rank and, but for *axis*, no larger than the input's.

    Attributes:
        axis: The axis of the input that the indices count along.
    """

    type_transparent: ClassVar[bool] = True
    input: Value
    indices: Value
    axis: int = 0

    @override
    def infer_type(self) -> TensorType:
        type, indices = self.input.type, self.indices.type
        require_kind(self, "indices", indices, INDICES)
        require_along(self, type, indices, self.axis)
        return type.with_shape(indices.shape)

    @override
    def evaluate(self, input: Array, indices: Array) -> Array:
        places = clamped(indices, input.shape[self.axis])
        kept = tuple(
            slice(None) if axis == self.axis else slice(n) for axis, n in enumerate(indices.shape)
        )
        return fitted(np.take_along_axis(input[kept], places, axis=self.axis), self.type)


@define_node("gather_nd")
class GatherND(Node):
    """Take slices at coordinates: ``result[b..., i...] = input[b..., *indices[b..., i..., :]]``.

    The last axis of ``indices`` holds the coordinates of one slice: its ``K`` entries index the
    axes after the *batch_dims* first ones, which are common to both. The result's shape is
    ``indices.shape[:-1] + input.shape[batch_dims + K:]``.

    Attributes:
        batch_dims: The number of leading axes that input and indices have in common.
    """

    type_transparent: ClassVar[bool] = True
    input: Value
    indices: Value
    batch_dims: int = 0

    @override
    def infer_type(self) -> TensorType:
        type, indices, batch = self.input.type, self.indices.type, self.batch_dims
        require_kind(self, "indices", indices, INDICES)
        self.require(
            indices.rank > batch >= 0 and same_shape(type.shape[:batch], indices.shape[:batch]),
            f"input {type} and indices {indices} do not have {batch} batch dimensions in common",
        )
        depth = indices.shape[-1]
        self.require(
            1 <= depth <= type.rank - batch,
            f"indices {indices} hold {depth} coordinates, but input {type} has "
            f"{type.rank - batch} axes after the batch",
        )
        indexed = type.shape[batch : batch + depth]
        self.require(
            0 not in indexed or indices.size == 0, f"indices {indices} into {type}, which is empty"
        )
        return type.with_shape((*indices.shape[:-1], *type.shape[batch + depth :]))

    @override
    def evaluate(self, input: Array, indices: Array) -> Array:
        batch, depth = self.batch_dims, indices.shape[-1]
        places = [clamped(indices[..., k], input.shape[batch + k]) for k in range(depth)]
        outer = [
            np.arange(n).reshape(-1, *(1,) * (indices.ndim - 2 - axis))
            for axis, n in enumerate(input.shape[:batch])
        ]
        return fitted(input[(*outer, *places)], self.type)
