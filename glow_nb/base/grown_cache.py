"""A cache of a function that grows where it lies."""

from __future__ import annotations

from dataclasses import dataclass

from glow_nb.base.symbol import Symbol
from glow_nb.base.types import TensorType


@dataclass(frozen=True)
class Cache:
    """A cache of a function, with room.

    Attributes:
        name: The input, which is an output as well.
        output: The output of the model that becomes the input; the cache stands for it.
        type: The cache with its room.
        axis: The axis of its rows.
        past: The number of rows before a run.
        total: The number of rows after the run.
        teller: The input without elements whose first size is *past*.
    """

    name: str
    output: str
    type: TensorType
    axis: int
    past: Symbol
    total: int
    teller: str
