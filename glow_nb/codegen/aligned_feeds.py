"""Fed arrays that begin anywhere, where kernels want them to begin on cache lines.

NumPy's large arrays begin 16 bytes after one. A 64-byte vector, or a row of a tile, then meets
two lines each time, and kernels that wait for little else run at a third of their speed; to copy
what is fed once costs less.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import numpy as np

from glow_nb.base.alignment import ALIGNMENT, Bytes, aligned_empty
from glow_nb.base.types import Array
from glow_nb.codegen.array_address import address_of
from glow_nb.codegen.run_layout import RunLayout

Address = ctypes.c_void_p | int | None


def aligned_inputs(layout: RunLayout) -> tuple[int, ...]:
    """Return the numbers of the inputs that kernels want to begin on a cache line."""
    return tuple(number for number, one in enumerate(layout.inputs) if one.is_aligned)


def begin_on_lines(arrays: Sequence[Array], numbers: Sequence[int]) -> bool:
    """Return whether those of *arrays* with these *numbers* begin on cache lines."""
    return all(address_of(arrays[number]) % ALIGNMENT == 0 for number in numbers)


class AlignedFeeds:
    """Memory on cache lines for copies of what is fed, for one run at a time."""

    def __init__(self, layout: RunLayout) -> None:
        """Have memory for the inputs of *layout* that want it, once there is something to copy."""
        self._numbers = aligned_inputs(layout)
        self._memory: dict[int, Bytes] = {}

    def place(self, inputs: Sequence[Array], addresses: list[Address]) -> None:
        """Copy those of *inputs* that begin elsewhere, and let *addresses* say where they lie."""
        for number in self._numbers:
            if address_of(inputs[number]) % ALIGNMENT:
                addresses[number] = self._copy(number, inputs[number])

    def _copy(self, number: int, array: Array) -> int:
        memory = self._memory.get(number)
        if memory is None or memory.nbytes < array.nbytes:
            memory = self._memory[number] = aligned_empty(array.nbytes)
        place: Array = memory[: array.nbytes].view(array.dtype).reshape(array.shape)
        np.copyto(place, array)
        return address_of(memory)
