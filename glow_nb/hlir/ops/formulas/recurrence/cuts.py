"""Parts of a tensor along one axis, and tensors side by side; nothing is emitted for a whole."""

from __future__ import annotations

from collections.abc import Sequence

from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Value
from glow_nb.hlir.ops.shape import Concat, Slice


def emit_slice(builder: Builder, value: Value, axis: int, begin: int, end: int) -> Value:
    """Emit the part of *value* from *begin* to *end* along *axis*; all of it as it is."""
    shape = value.type.shape
    if (begin, end) == (0, shape[axis]):
        return value
    starts, stops = [0] * len(shape), list(shape)
    starts[axis], stops[axis] = begin, end
    return builder.emit(Slice(value, tuple(starts), tuple(stops), (1,) * len(shape)))


def emit_concat(builder: Builder, values: Sequence[Value], axis: int) -> Value:
    """Emit *values* side by side; one alone as it is."""
    return values[0] if len(values) == 1 else builder.emit(Concat(tuple(values), axis=axis))
