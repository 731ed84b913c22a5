"""Open sizes as numbers that are computed with."""

from __future__ import annotations

import numpy as np
from typing_extensions import override

from glow_nb.base.size import Size
from glow_nb.base.types import Array, ElementKind, TensorType
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Node, Value, define_node
from glow_nb.hlir.ops.elementwise import ConvertTo
from glow_nb.hlir.ops.families import splat
from glow_nb.hlir.ops.shape import Reshape

INT64 = ElementKind.INT64


@define_node("sizes")
class Sizes(Node):
    """The *numbers*, sizes that are known when the network runs, as a vector of int64.

    Attributes:
        numbers: The sizes, in order.
    """

    numbers: tuple[int, ...]

    @override
    def infer_type(self) -> TensorType:
        return TensorType(INT64, (len(self.numbers),))

    @override
    def evaluate(self) -> Array:
        return np.array(self.numbers, np.int64)


def size_value(builder: Builder, like: TensorType, size: int, name: str) -> Value:
    """Return a *size* as one number of the kind of *like*, which broadcasts to it."""
    if not isinstance(size, Size):
        return splat(builder, like, size, name)
    number = builder.emit(ConvertTo(builder.emit(Sizes((size,))), like.kind))
    return builder.emit(Reshape(number, (1,) * like.rank))
