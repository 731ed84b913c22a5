"""Running a kernel source on NumPy arrays, for the tests of the generators."""

from __future__ import annotations

import ctypes
import mmap
from typing import Any

import numpy as np

from glow_nb.base.types import Array, ElementKind
from glow_nb.codegen.cache import ObjectCache
from glow_nb.codegen.loaded_code import LoadedCode
from glow_nb.codegen.pool import compile_objects
from glow_nb.kernels.target import Target
from glow_nb.kernels.writing.source import KernelSource

CACHE = ObjectCache()
GUARD = 64
"""Elements kept on each side of an array, to notice a kernel that writes outside it."""


class RunningKernel:
    """A compiled kernel that takes NumPy arrays."""

    def __init__(self, source: KernelSource, target: Target) -> None:
        self.source = source
        objects = compile_objects([source], target, cache=CACHE, workers=0)
        self._code = LoadedCode(objects.values(), target)
        pointers = [ctypes.c_void_p] * (len(source.arguments) + 1)
        prototype = ctypes.CFUNCTYPE(None, *pointers, ctypes.c_int64, ctypes.c_int64)
        self._function: Any = prototype(self._code.address(source.symbol))

    def call(self, *pointers_and_share: int) -> None:
        """Call the kernel with addresses of the arrays and the scratch, thread and threads."""
        self._function(*pointers_and_share)

    def __call__(self, *arrays: Array, threads: int = 1) -> None:
        """Call the kernel for each thread in turn; the first array is the result.

        An even number of threads is called backwards: shares come in any order.
        """
        kinds = tuple(ElementKind.of(array.dtype) for array in arrays)
        assert kinds == self.source.arguments
        scratch = np.full(self.source.scratch_bytes + 64 + GUARD, 0xA5, np.uint8)
        start = -scratch.ctypes.data % 64
        pointers = [array.ctypes.data for array in arrays]
        for thread in range(threads)[:: 1 if threads % 2 else -1]:
            self.call(*pointers, scratch.ctypes.data + start, thread, threads)
        assert (scratch[start + self.source.scratch_bytes :] == 0xA5).all(), "wrote past scratch"


def guarded(shape: tuple[int, ...], kind: ElementKind) -> tuple[Array, Array]:
    """Return an array of a fill value inside a larger one, and the larger one."""
    size = int(np.prod(shape))
    whole = np.full(size + 2 * GUARD, 77).astype(kind.dtype)
    return whole[GUARD : GUARD + size].reshape(shape), whole


def at_a_forbidden_page(size: int) -> Array:
    """Return *size* bytes after which a page begins that may not be read: it ends the process."""
    page = mmap.PAGESIZE
    room = -(-size // page) * page
    memory = mmap.mmap(-1, room + page)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    protect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    assert protect(start + room, page, 0) == 0
    return np.frombuffer(memory, np.uint8, size, room - size)


def guards_are_intact(whole: Array) -> bool:
    """True if nothing was written around the array that ``guarded`` returned."""
    fill = np.array(77).astype(whole.dtype)
    return bool((whole[:GUARD] == fill).all() and (whole[-GUARD:] == fill).all())
