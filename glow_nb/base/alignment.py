"""The alignment of buffers, the line of a cache, and memory that begins where it should."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]

CACHE_LINE_BYTES = 64
"""The size of a cache line. Data that two threads write are in different lines."""

ALIGNMENT = 64
"""Bytes: every buffer of a program begins at a multiple of a cache line and of any vector."""


def aligned_bytes(size_bytes: int) -> int:
    """Return *size_bytes* rounded up to a multiple of :data:`ALIGNMENT`."""
    return -(-size_bytes // ALIGNMENT) * ALIGNMENT


def aligned_empty(size_bytes: int) -> Bytes:
    """Return uninitialised memory that begins at a multiple of :data:`ALIGNMENT`."""
    memory = np.empty(size_bytes + ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % ALIGNMENT
    return memory[start : start + size_bytes]
