"""Numbers that a run computes become sizes of what follows."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from typing_extensions import override

from glow_nb.base.errors import FeedError, UnsupportedError
from glow_nb.base.size import Size, Symbol
from glow_nb.base.types import Array, ElementKind, TensorType
from glow_nb.hlir.graph import Node, Value, define_node
from glow_nb.hlir.rewrite import Rewriter
from glow_nb.hlir.rules import lowers

NUMBER = TensorType(ElementKind.INT64, ())


@define_node("decide_size")
class DecideSize(Node):
    """Let *size*, a symbol, be the *number* that a run computes, an int64 of rank 0.

    Other nodes have the symbol in their types and attributes. The result has no elements: its
    shape, ``[size, 0]``, tells the size. A function with such nodes is cut after them into stages
    (:mod:`glow_nb.hlir.stages`).

    Attributes:
        size: The symbol, which stands in types and attributes of the nodes behind it.
    """

    has_side_effects: ClassVar[bool] = True
    number: Value
    size: int

    @override
    def infer_type(self) -> TensorType:
        self.require(
            self.number.type == NUMBER, f"'number' is {self.number.type}, but must be {NUMBER}"
        )
        self.require(
            self.decides is None or self.decides.size == self.size,
            f"size is {self.size!s}, but must be a symbol of its own",
        )
        return TensorType(ElementKind.BOOL, (self.size, 0))

    @property
    @override
    def decides(self) -> Symbol | None:
        return self.size.symbols[0] if isinstance(self.size, Size) else None

    @override
    def evaluate(self, number: Array) -> Array:
        if int(number) != self.size:
            raise FeedError(
                f"{self!r}: the size is {int(number)}, and the graph was made for {self.size}"
            )
        return np.empty((self.size, 0), np.bool_)


@lowers(DecideSize)
def lower_decide_size(node: DecideSize, rewriter: Rewriter) -> Value:
    """Leave out what decides a size that has been made a number.

    Raises:
        UnsupportedError: The size is open: :mod:`glow_nb.hlir.stages` has not cut the function.
    """
    if node.decides is not None:
        raise UnsupportedError(
            f"{node!r}: the size {node.decides} is data-dependent, and this function is not cut "
            "into stages; only glow_nb.compile and glow_nb.evaluate do that"
        )
    return rewriter.constant(node.name, np.empty(node.type.shape, np.bool_), is_weight=False)
