"""Memory that processes share: files without a name, and arrays in them.

Only descriptors lead to such a file. It goes with the last process that has one or that has mapped
it, however these end, so that nothing is ever left behind; there is nothing to remove.
"""

from __future__ import annotations

import mmap
import os
import tempfile
import weakref
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from glow_nb.base.alignment import aligned_bytes
from glow_nb.base.memory_limit import require_run_memory
from glow_nb.base.size import Symbol
from glow_nb.base.types import Array, TensorType


class AnonymousFile:
    """A file without a name, in memory where the system has such files.

    Attributes:
        descriptor: Leads to it; closed when this object goes.
        size_bytes: The size in bytes.
    """

    def __init__(self, size_bytes: int) -> None:
        """Make a file of zeros; raise OSError if the system has not so much memory."""
        if hasattr(os, "memfd_create"):
            self.descriptor = os.memfd_create("glow_nb")
        else:  # a file on disk that has lost its name
            with tempfile.TemporaryFile() as file:
                self.descriptor = os.dup(file.fileno())
        self._close = weakref.finalize(self, os.close, self.descriptor)
        self._take(size_bytes)

    def _take(self, size_bytes: int) -> None:
        if hasattr(os, "posix_fallocate"):  # to get the error now, and not as a signal later
            os.posix_fallocate(self.descriptor, 0, size_bytes)
        else:
            os.truncate(self.descriptor, size_bytes)
        self.size_bytes = size_bytes

    def grow(self, size_bytes: int) -> None:
        """Have at least this number of bytes.

        Raises:
            MemoryLimitError: It is more than the process may have.
            OSError: The system has not so much memory.
        """
        more = size_bytes - self.size_bytes
        if more > 0:
            require_run_memory("run", {"inputs and outputs": more})
            self._take(size_bytes)

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
        places = _arrays_in(memory, [*inputs, *outputs] * count)
        for _ in range(count):
            self.inputs.append([next(places) for _ in inputs])
            self.outputs.append([next(places) for _ in outputs])

    def arrays(self, slot: int, _: Sequence[int] = ()) -> tuple[list[Array], list[Array]]:
        """Return the inputs and the outputs of *slot*."""
        return self.inputs[slot], self.outputs[slot]


class OpenSlots:
    """The inputs and outputs of a network with open sizes: a file for each slot.

    It is as large as the largest run in this slot was, and both processes map it anew when it has
    grown.
    """

    def __init__(
        self,
        descriptors: Sequence[int],
        inputs: Sequence[TensorType],
        outputs: Sequence[TensorType],
        symbols: Sequence[Symbol],
    ) -> None:
        """Use the files of *descriptors*, which the caller closes."""
        self._descriptors, self._types = descriptors, (*inputs, *outputs)
        self._inputs, self._names = len(inputs), [symbol.name for symbol in symbols]
        self._mapped: list[mmap.mmap | None] = [None for _ in descriptors]

    def types_for(self, numbers: Sequence[int]) -> list[TensorType]:
        """Return the types of inputs and outputs for the *numbers* of the symbols in order."""
        sizes = dict(zip(self._names, numbers, strict=True))
        return [type.at(sizes) for type in self._types]

    def arrays(self, slot: int, numbers: Sequence[int]) -> tuple[list[Array], list[Array]]:
        """Return the inputs and the outputs of *slot*, whose file has room for these *numbers*."""
        types = self.types_for(numbers)
        needed, memory = slots_bytes(types, (), 1), self._mapped[slot]
        if memory is None or len(memory) < needed:
            memory = self._mapped[slot] = mmap.mmap(self._descriptors[slot], 0)
        found = list(_arrays_in(memory, types))
        return found[: self._inputs], found[self._inputs :]


def _arrays_in(memory: mmap.mmap, types: Iterable[TensorType]) -> Iterator[Array]:
    """Yield arrays of *types*, one after the other."""
    offset = 0
    for type in types:
        yield np.ndarray(type.shape, type.kind.dtype, memory, offset)
        offset += aligned_bytes(type.size_bytes)


def slots_bytes(inputs: Sequence[TensorType], outputs: Sequence[TensorType], count: int) -> int:
    """Return the size of a file for *count* slots; a network without tensors needs some, too."""
    return count * sum(aligned_bytes(t.size_bytes) for t in (*inputs, *outputs)) or 1
