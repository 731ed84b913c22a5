"""Numbers that count along an axis of open size, and the triangles that two of them make."""

from __future__ import annotations

from glow_nb.base.size import symbols_of
from glow_nb.base.types import ElementKind, TensorType
from glow_nb.hlir.builder import Emitter
from glow_nb.hlir.graph import Value
from glow_nb.hlir.ops.arithmetic import Add
from glow_nb.hlir.ops.broadcast import Broadcast
from glow_nb.hlir.ops.comparison import LessEqual
from glow_nb.hlir.ops.reduction import CumSum
from glow_nb.hlir.ops.shape import Reshape
from glow_nb.hlir.ops.sizes import Sizes


def counting(emitter: Emitter, count: int, first: int = 0) -> Value:
    """Emit ``first, first + 1, ...``, *count* numbers of int64: a running sum of ones."""
    one = emitter.number(TensorType(ElementKind.INT64, (1,)), 1)
    ones = emitter.emit(Broadcast(one, (count,)))
    numbers = emitter.emit(CumSum(ones, axis=0, exclusive=True))
    if first == 0:
        return numbers
    is_open = symbols_of(first)
    start = emitter.emit(Sizes((first,))) if is_open else emitter.number(one.type, first)
    return emitter.emit(Add(numbers, start))


def triangle(emitter: Emitter, rows: int, columns: int, offset: int) -> Value:
    """Emit the bools ``[rows, columns]`` that are true up to the column that is row + *offset*."""
    row = emitter.emit(Reshape(counting(emitter, rows, offset), (rows, 1)))
    column = emitter.emit(Reshape(counting(emitter, columns), (1, columns)))
    return emitter.emit(LessEqual(column, row))
