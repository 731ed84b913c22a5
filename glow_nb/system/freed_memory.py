"""Memory that the system gets back as soon as it is free: glibc keeps much, for each thread."""

from __future__ import annotations

import ctypes
import sys

import numpy as np

from glow_nb.base.types import Array, TensorType

MAPPED_BYTES = 32 << 20
"""The least that glibc maps by itself, whatever was freed before, and unmaps when it is freed."""

KEPT_BYTES = 1 << 20
"""What is smaller may stay with the thread that frees it."""


def mapped_empty(type: TensorType) -> Array:
    """Return an uninitialised array of *type*, for results that live a moment.

    The memory of a large one is the system's again when the array is gone, not that of the thread
    that freed it. More is reserved than it needs, but only what is written takes memory.
    """
    if type.size_bytes < KEPT_BYTES:
        return np.empty(type.shape, type.kind.dtype)
    room = np.empty(max(type.size_bytes, MAPPED_BYTES), np.uint8)
    return room[: type.size_bytes].view(type.kind.dtype).reshape(type.shape)


def return_freed_memory() -> None:
    """Give back to the system what was freed between what is still in use."""
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # other C libraries have none
        if trim is not None:
            trim(0)
