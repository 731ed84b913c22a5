"""Writing a part of a tensor: how a cache grows where it lies."""

from __future__ import annotations

from typing import ClassVar

from typing_extensions import override

from glow_nb.base.size import surely
from glow_nb.base.types import Array, TensorType
from glow_nb.hlir.graph import Node, Value, define_node
from glow_nb.hlir.ops.families import fitted, require_axis


@define_node("insert_slice")
class InsertSlice(Node):
    """Replace the elements of *input* from ``start`` on by *part*, along *axis*.

    All other elements are those of *input*. If the result is saved to *input*, and nobody reads its
    old contents later, only *part* is written (:mod:`glow_nb.llir.generate`).

    Attributes:
        axis: The axis along which elements are replaced.
        start: The place of the first element that is replaced.
    """

    type_transparent: ClassVar[bool] = True
    input: Value
    part: Value
    axis: int
    start: int

    @override
    def infer_type(self) -> TensorType:
        type, part = self.input.type, self.part.type
        require_axis(self, self.axis, type.rank)
        count = part.shape[self.axis] if part.rank == type.rank else 0
        wanted = (*type.shape[: self.axis], count, *type.shape[self.axis + 1 :])
        self.require(
            part == type.with_shape(wanted), f"part {part} does not fit {type} along {self.axis}"
        )
        end = self.start + count
        is_outside = surely(self.start, "<", 0) or surely(end, ">", type.shape[self.axis])
        self.require(
            not is_outside, f"elements {self.start} to {end} leave axis {self.axis} of {type}"
        )
        return type

    @override
    def evaluate(self, input: Array, part: Array) -> Array:
        result = fitted(input, self.type).copy()
        place = [slice(None)] * result.ndim
        place[self.axis] = slice(self.start, self.start + part.shape[self.axis])
        result[tuple(place)] = part
        return result
