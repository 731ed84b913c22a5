"""Writing elements at places that another tensor names, onto a copy of a tensor.

An index counts from the front, or from the end if negative, and is clamped to its axis like that of
a gather: so ``scatter_elements`` with the reduction ``add`` is the gradient of ``gather_elements``.
Updates are taken in row-major order, and each is rounded to the element kind: of several at one
place the last one stands, or each is combined with the result of those before.
"""

from __future__ import annotations

from math import prod
from typing import Annotated, Any, ClassVar

import numpy as np
from typing_extensions import override

from glow_nb.base.costs import Cost
from glow_nb.base.schema import OneOf
from glow_nb.base.types import Array, TensorType
from glow_nb.hlir.graph import Node, Value, define_node
from glow_nb.hlir.ops.families import INDICES, NUMBERS, fitted, require_kind
from glow_nb.hlir.ops.gather import clamped, require_along

REDUCTIONS: dict[str, np.ufunc | None] = {
    "none": None,
    "add": np.add,
    "mul": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
}
"""How an update is combined with what stands at its place; ``none`` replaces it."""


@define_node("scatter_elements")
class ScatterElements(Node):
    """Write single elements: ``result[..., indices[..., i, ...], ...] = updates[..., i, ...]``.

    Everywhere else the result is ``data``. The index replaces the place along *axis*. ``indices``
    and ``updates`` have one shape, of the rank of ``data`` and, but for *axis*, no larger.

    Attributes:
        axis: Axis that the indices lead along, counted from the front.
        reduction: ``none``, ``add``, ``mul``, ``max`` or ``min``; a NaN is the extreme.
    """

    type_transparent: ClassVar[bool] = True
    data: Value
    indices: Value
    updates: Value
    axis: int = 0
    reduction: Annotated[str, OneOf(*REDUCTIONS)] = "none"

    @override
    def infer_type(self) -> TensorType:
        type, indices = self.data.type, self.indices.type
        _check_kinds(self)
        require_along(self, type, indices, self.axis)
        _require_updates(self, type.with_shape(indices.shape))
        return type

    @override
    def evaluate(self, data: Array, indices: Array, updates: Array) -> Array:
        grid: list[Any] = list(np.indices(indices.shape, np.int64, sparse=True))
        grid[self.axis] = clamped(indices, data.shape[self.axis])
        places = sum(place * prod(data.shape[i + 1 :]) for i, place in enumerate(grid))
        return _written(self, data, places, updates, 1)

    @override
    def cost(self) -> Cost:
        return _combining_cost(self)


@define_node("scatter_nd")
class ScatterND(Node):
    """Write slices at coordinates: ``result[*indices[i..., :]] = updates[i...]``.

    Everywhere else the result is ``data``. The last axis of ``indices`` holds the coordinates of
    one slice: its ``K`` entries index the first axes of ``data``. ``updates`` has the shape
    ``indices.shape[:-1] + data.shape[K:]``.

    Attributes:
        reduction: ``none``, ``add``, ``mul``, ``max`` or ``min``; a NaN is the extreme.
    """

    type_transparent: ClassVar[bool] = True
    data: Value
    indices: Value
    updates: Value
    reduction: Annotated[str, OneOf(*REDUCTIONS)] = "none"

    @override
    def infer_type(self) -> TensorType:
        type, indices = self.data.type, self.indices.type
        _check_kinds(self)
        self.require(indices.rank > 0, f"indices {indices} must hold coordinates along an axis")
        depth = indices.shape[-1]
        self.require(
            1 <= depth <= type.rank,
            f"indices {indices} hold {depth} coordinates, but data {type} has {type.rank} axes",
        )
        self.require(
            0 not in type.shape[:depth] or indices.size == 0,
            f"indices {indices} into {type}, which is empty",
        )
        _require_updates(self, type.with_shape((*indices.shape[:-1], *type.shape[depth:])))
        return type

    @override
    def evaluate(self, data: Array, indices: Array, updates: Array) -> Array:
        depth = indices.shape[-1]
        places = sum(
            clamped(indices[..., k], data.shape[k]) * prod(data.shape[k + 1 : depth])
            for k in range(depth)
        )
        return _written(self, data, places, updates, prod(data.shape[depth:]))

    @override
    def cost(self) -> Cost:
        return _combining_cost(self)


def _combining_cost(node: ScatterElements | ScatterND) -> Cost:
    """Count one operation for each update that is combined with what is there."""
    return Cost(others=node.updates.type.size if node.reduction != "none" else 0)


def _check_kinds(node: ScatterElements | ScatterND) -> None:
    """Raise VerifyError unless the indices are some, and the data can be combined if they are."""
    require_kind(node, "indices", node.indices.type, INDICES)
    if node.reduction != "none":
        require_kind(node, "data", node.data.type, NUMBERS)


def _require_updates(node: ScatterElements | ScatterND, wanted: TensorType) -> None:
    found = node.updates.type
    node.require(found == wanted, f"'updates' is {found}, but the data and indices need {wanted}")


def _written(
    node: ScatterElements | ScatterND, data: Array, places: Any, updates: Array, length: int
) -> Array:
    """Return *data* with rows of *length* elements of *updates* at *places*, in order."""
    places = np.asarray(places, np.int64).reshape(-1)
    rows = data.reshape(-1, max(length, 1)).copy()
    news = updates.reshape(len(places), length)
    combine = REDUCTIONS[node.reduction]
    if not news.size:
        return fitted(data, node.type)
    with np.errstate(all="ignore"):
        if combine is None:
            rows[places] = news
        else:
            combine.at(rows, places, news)
    return fitted(rows, node.type)
