"""``broadcast``, which repeats a tensor along dimensions of size 1."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from typing_extensions import override

from glow_nb.base.size import same
from glow_nb.base.types import Array, TensorType
from glow_nb.hlir.graph import Node, Value, define_node
from glow_nb.hlir.ops.families import fitted


@define_node("broadcast")
class Broadcast(Node):
    """Repeat dimensions of size 1 to give *shape*, which has the same rank.

    Attributes:
        shape: The shape of the result.
    """

    type_transparent: ClassVar[bool] = True
    input: Value
    shape: tuple[int, ...]

    @override
    def infer_type(self) -> TensorType:
        type = self.input.type
        self.require(
            len(self.shape) == type.rank
            and all(
                n >= 0 and (m == 1 or same(m, n))
                for m, n in zip(type.shape, self.shape, strict=True)
            ),
            f"{type} does not broadcast to shape {list(self.shape)}; ranks must be equal, and in "
            "each dimension the size 1 or equal",
        )
        return type.with_shape(self.shape)

    @override
    def evaluate(self, input: Array) -> Array:
        return fitted(np.broadcast_to(input, self.shape), self.type)
