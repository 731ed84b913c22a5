"""Memory that processes share: files without a name, and arrays in them.

Only descriptors lead to such a file. It goes with the last process that has one or that has mapped
it, however these end, so that nothing is ever left behind; there is nothing to remove.
"""

from __future__ import annotations

import mmap
import os
import tempfile
import weakref
from collections.abc import Sequence

import numpy as np

from glow_nb.base.alignment import aligned_bytes
from glow_nb.base.types import Array, TensorType


class AnonymousFile:
    """A file without a name, in memory where the system has such files.

    Attributes:
        descriptor: Leads to it; closed when this object goes.
    """

    def __init__(self, size_bytes: int) -> None:
        """Make a file of zeros; raise OSError if the system has not so much memory."""
        if hasattr(os, "memfd_create"):
            self.descriptor = os.memfd_create("glow_nb")
        else:  # a file on disk that has lost its name
            with tempfile.TemporaryFile() as file:
                self.descriptor = os.dup(file.fileno())
        self._close = weakref.finalize(self, os.close, self.descriptor)
        if hasattr(os, "posix_fallocate"):  # to be told now, and not by a signal at the first use
            os.posix_fallocate(self.descriptor, 0, size_bytes)
        else:
            os.truncate(self.descriptor, size_bytes)

    @classmethod
    def holding(cls, content: bytes) -> AnonymousFile:
        """Return a file with *content*."""
        made = cls(len(content))
        view, place = memoryview(content), 0
        while place < len(content):
            place += os.pwrite(made.descriptor, view[place:], place)
        return made


def map_for_reading(descriptor: int) -> memoryview:
    """Return the content of a file where it lies, at the beginning of a page."""
    return memoryview(mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ))


class Slots:
    """The inputs and outputs of a network for some runs, in a file that both processes map.

    Attributes:
        inputs: For each slot, the arrays in the order of the program.
        outputs: Likewise.
    """

    def __init__(
        self,
        descriptor: int,
        inputs: Sequence[TensorType],
        outputs: Sequence[TensorType],
        count: int,
    ) -> None:
        """Map a file of :func:`slots_bytes`."""
        memory = mmap.mmap(descriptor, slots_bytes(inputs, outputs, count))
        self.inputs: list[list[Array]] = []
        self.outputs: list[list[Array]] = []
        offset = 0
        for _ in range(count):
            for arrays, types in ((self.inputs, inputs), (self.outputs, outputs)):
                places = []
                for type in types:
                    places.append(np.ndarray(type.shape, type.kind.dtype, memory, offset))
                    offset += aligned_bytes(type.size_bytes)
                arrays.append(places)


def slots_bytes(inputs: Sequence[TensorType], outputs: Sequence[TensorType], count: int) -> int:
    """Return the size of a file for *count* slots; a network without tensors needs some, too."""
    return count * sum(aligned_bytes(t.size_bytes) for t in (*inputs, *outputs)) or 1
