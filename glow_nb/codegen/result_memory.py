"""Memory of large results, kept for the next run when the caller has let go of the array.

What is larger than 32 MiB the C library takes from the system each time, and the system clears
every page before its first use. For a product of matrices with a short sum that takes longer than
the product itself. So the memory of such a result is reused when it is no longer referenced,
and one piece for each output is kept: ``outputs = net.run(inputs)`` in a loop uses two in turn.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from glow_nb.base.alignment import Bytes, aligned_empty
from glow_nb.base.types import Array
from glow_nb.system.freed_memory import MAPPED_BYTES


def array_maker(
    dtype: np.dtype[Any], shape: tuple[int, ...], *, is_aligned: bool = False
) -> Callable[[], Array]:
    """Return a function that returns a new, uninitialised array of this type in each call.

    It begins on a cache line if that is asked for, or if it is large.
    """
    size = np.prod(shape, dtype=np.int64).item() * dtype.itemsize
    if size < MAPPED_BYTES:
        if is_aligned:
            return lambda: aligned_empty(size).view(dtype).reshape(shape)
        return partial(np.empty, shape, dtype)
    return partial(_lent_array, dtype, shape, size, deque(maxlen=1))


def _lent_array(
    dtype: np.dtype[Any], shape: tuple[int, ...], size: int, kept: deque[Bytes]
) -> Array:
    """Return an array on the memory in *kept*, or on new memory; it goes back when it is free."""
    try:
        block = kept.pop()
    except IndexError:
        block = aligned_empty(size)
    return np.asarray(_Loan(block, kept)).view(dtype).reshape(shape)


class _Loan:
    """An object that an array and all views of it refer to: it lives as long as the last one."""

    def __init__(self, block: Bytes, kept: deque[Bytes]) -> None:
        """Lend *block*; *kept* gets it back, and forgets the one that it had."""
        self.__array_interface__ = block.__array_interface__
        self._block, self._kept = block, kept

    def __del__(self) -> None:
        self._kept.append(self._block)
