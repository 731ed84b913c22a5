"""Recurrent weights in panels: the columns of a register tile side by side, for all gates of it.

A panel holds *width* neighbouring hidden elements: in each row, their columns of the first gate,
then those of the next. The last panel is padded with zeros. The panels of one phase of a cell
follow those of another; one with fewer gates has wider panels, so that these have as many columns.
Of a gradient, the matrix is the transposed one, whose columns are hidden
elements as well, and there is one "gate".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from glow_nb.base.types import Array
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Value
from glow_nb.hlir.ops.formulas.recurrence.cells import Phase
from glow_nb.hlir.ops.formulas.recurrence.cuts import emit_concat, emit_slice
from glow_nb.hlir.ops.shape import Pad, Reshape, Transpose

Part = tuple[int, int, int]
"""Rows of the matrix of a phase, gates side by side in it, and how many widths its panels have."""


def parts_of(phases: Sequence[Phase], size: int, *, transposed: bool) -> list[Part]:
    """Return the parts of the weights of *phases*, of *size* elements, or *transposed*."""
    if transposed:
        return [(phase.gates * size, 1, 1) for phase in phases]
    most = max(phase.gates for phase in phases)
    return [(size, phase.gates, most // phase.gates) for phase in phases]


def packed_elements(parts: Iterable[Part], size: int, width: int) -> int:
    """Return how many elements all panels of a direction have."""
    return sum(rows * gates * _padded(size, width * factor) for rows, gates, factor in parts)


def _padded(size: int, width: int) -> int:
    return -(-size // width) * width


def plain_matrix(
    packed: Array, parts: Sequence[Part], size: int, width: int, *, transposed: bool
) -> Array:
    """Return ``[D, elements]`` as the matrix ``[D, H, gates * H]`` that was packed."""
    found, begin, directions = [], 0, len(packed)
    for rows, gates, factor in parts:
        wide = width * factor
        padded = _padded(size, wide)
        end = begin + rows * gates * padded
        panels = packed[:, begin:end].reshape(directions, padded // wide, rows, gates, wide)
        apart = panels.transpose(0, 2, 3, 1, 4).reshape(directions, rows, gates, padded)
        matrix = apart[..., :size].reshape(directions, rows, gates * size)
        found.append(matrix.swapaxes(1, 2) if transposed else matrix)
        begin = end
    return np.concatenate(found, axis=2)


def emit_panels(
    builder: Builder, matrix: Value, phases: Sequence[Phase], width: int, *, transposed: bool
) -> Value:
    """Emit ``[D, elements]`` of *matrix*, ``[D, H, gates * H]``; it folds if that is constant."""
    directions, size, _ = matrix.type.shape
    found: list[Value] = []
    parts = parts_of(phases, size, transposed=transposed)
    for phase, (rows, gates, factor) in zip(phases, parts, strict=True):
        begin, end = phase.first * size, (phase.first + phase.gates) * size
        part = emit_slice(builder, matrix, 2, begin, end)
        if transposed:
            part = builder.emit(Transpose(part, (0, 2, 1)))
        wide = width * factor
        padded = _padded(size, wide)
        part = builder.emit(Reshape(part, (directions, rows, gates, size)))
        part = builder.emit(Pad(part, (0,) * 7 + (padded - size,)))
        shape = (directions, rows, gates, padded // wide, wide)
        part = builder.emit(Transpose(builder.emit(Reshape(part, shape)), (0, 3, 1, 2, 4)))
        found.append(builder.emit(Reshape(part, (directions, rows * gates * padded))))
    return emit_concat(builder, found, 1)


def emit_plain(
    builder: Builder,
    packed: Value,
    phases: Sequence[Phase],
    size: int,
    width: int,
    *,
    transposed: bool,
) -> Value:
    """Emit the matrix ``[D, H, gates * H]`` that was packed as *packed*, ``[D, elements]``."""
    directions, begin = packed.type.shape[0], 0
    found: list[Value] = []
    for rows, gates, factor in parts_of(phases, size, transposed=transposed):
        wide = width * factor
        padded = _padded(size, wide)
        end = begin + rows * gates * padded
        part = emit_slice(builder, packed, 1, begin, end)
        shape = (directions, padded // wide, rows, gates, wide)
        part = builder.emit(Transpose(builder.emit(Reshape(part, shape)), (0, 2, 3, 1, 4)))
        part = builder.emit(Reshape(part, (directions, rows, gates, padded)))
        part = emit_slice(builder, part, 3, 0, size)
        part = builder.emit(Reshape(part, (directions, rows, gates * size)))
        found.append(builder.emit(Transpose(part, (0, 2, 1))) if transposed else part)
        begin = end
    return emit_concat(builder, found, 2)
