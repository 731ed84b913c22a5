"""The rows of a known matrix of integers that share a scale, by the way it was moved.

A matrix of weights comes dequantized in the layout of a model: with the blocks as an axis of their
own, transposed, or cut to the rows that count. Each axis of what comes of it is made of axes of
the integers, and the scales vary along some of these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import gcd, prod

import numpy as np

from glow_nb.base.types import Array
from glow_nb.hlir.graph import Node
from glow_nb.hlir.ops import Reshape, Slice, Transpose


@dataclass(frozen=True)
class Layout:
    """The axes of a tensor, made from the axes of another one, whose sizes are *sizes*.

    Attributes:
        sizes: Sizes of the axes that it consists of.
        axes: For each axis those that it joins, from the outside in.
        shape: The shape; an axis may be cut at its end.
    """

    sizes: tuple[int, ...]
    axes: tuple[tuple[int, ...], ...]
    shape: tuple[int, ...]

    @classmethod
    def of(cls, shape: tuple[int, ...]) -> Layout:
        """Return that of a tensor that was not moved."""
        return cls(shape, tuple((axis,) for axis in range(len(shape))), shape)

    def moved(self, move: Node) -> Layout | None:
        """Return that of what *move* makes of the tensor; None if it is no such layout."""
        match move:
            case Transpose(permutation=order):
                axes = tuple(self.axes[axis] for axis in order)
                return replace(self, axes=axes, shape=move.type.shape)
            case Reshape(shape=shape):
                return self._joined(shape)
            case Slice(starts=starts, steps=steps):
                is_cut = not any(starts) and set(steps) <= {1}
                return replace(self, shape=move.type.shape) if is_cut else None
        return None

    def _joined(self, shape: tuple[int, ...]) -> Layout | None:
        """Return that of a reshape that makes one axis of several neighbours.

        What is left belongs to the last axis: ``by_blocks`` needs the place of every axis.
        """
        rest, axes = list(range(len(self.shape))), []
        for place, size in enumerate(shape, 1):
            taken = [rest.pop(0)] if rest else []
            is_last = place == len(shape)
            while rest and (is_last or prod(self.shape[axis] for axis in taken) < size):
                taken.append(rest.pop(0))
            if prod(self.shape[axis] for axis in taken) != size or not self._is_whole(taken[1:]):
                return None
            axes.append(tuple(inner for axis in taken for inner in self.axes[axis]))
        return None if rest else replace(self, axes=tuple(axes), shape=shape)

    def _is_whole(self, axes: Sequence[int]) -> bool:
        """Return whether none of *axes* is cut; what lies outside of them may be."""
        return all(self.shape[i] == prod(self.sizes[n] for n in self.axes[i]) for i in axes)

    def by_blocks(self, *parameters: Array) -> tuple[int, list[Array]] | None:
        """Return how many rows share a scale, and *parameters* as ``[blocks, N]``.

        The tensor is ``[K, N]``; the parameters broadcast to what it was moved from. None if rows
        that share one are no neighbours.
        """
        if len(self.axes) != 2 or not self._is_whole([1]) or 0 in self.shape:
            return None
        rows, columns = self.axes
        shape = np.broadcast_shapes(*(array.shape for array in parameters))
        varying = [axis for axis in rows if self.sizes[axis] > 1 and shape[axis] > 1]
        last = rows.index(varying[-1]) + 1 if varying else 0
        if any(shape[axis] == 1 < self.sizes[axis] for axis in rows[:last]):
            return None
        block = prod(self.sizes[axis] for axis in rows[last:])
        blocks = -(-self.shape[0] // max(1, block))
        spread = tuple(
            size if axis in columns else shape[axis] for axis, size in enumerate(self.sizes)
        )
        tables = [
            np.broadcast_to(array, spread).transpose(*rows, *columns).reshape(-1, self.shape[1])
            for array in parameters
        ]
        return _coarsened(block, [table[:blocks] for table in tables])


def _coarsened(block: int, tables: list[Array]) -> tuple[int, list[Array]]:
    """Return the largest blocks that have one row of each of *tables*, and these rows."""
    changes = [np.flatnonzero((table[1:] != table[:-1]).any(axis=1)) + 1 for table in tables]
    blocks = len(tables[0])
    step = gcd(*(int(place) for places in changes for place in places)) or max(1, blocks)
    return block * step, [np.ascontiguousarray(table[::step]) for table in tables]
