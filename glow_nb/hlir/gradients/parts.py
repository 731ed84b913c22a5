"""The part that one of several has, whose number may be an open size."""

from __future__ import annotations

from glow_nb.base.size import Size
from glow_nb.hlir.backward import Backward
from glow_nb.hlir.graph import Value
from glow_nb.hlir.ops.elementwise import Reciprocal
from glow_nb.hlir.ops.formulas.terms import Term
from glow_nb.hlir.ops.sizes import size_value


def part(builder: Backward, like: Value, count: int) -> Term | float:
    """Return ``1 / count``, or 1 for a count of 0, as a factor of *like*."""
    if not isinstance(count, Size):
        return 1 / max(count, 1)
    return builder.term(builder.emit(Reciprocal(size_value(builder, like.type, count, "count"))))
