"""Where the runs of a network on a process device lie: memory that the process maps as well."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from glow_nb.base.sizes_of_shapes import sizes_of_shapes
from glow_nb.base.types import Array
from glow_nb.codegen.native_program import NativeProgram
from glow_nb.runtime.devices.channel import text_of_numbers
from glow_nb.runtime.devices.process_worker import SLOTS
from glow_nb.runtime.devices.shared_memory import AnonymousFile, OpenSlots, Slots, slots_bytes


class FixedRuns:
    """Runs of a network of fixed sizes: one file for all.

    Attributes:
        descriptors: Lead to the file.
    """

    def __init__(self, native: NativeProgram) -> None:
        """Take memory for all slots; raise OSError if there is none."""
        inputs, outputs = ([b.type for b in side] for side in (native.inputs, native.outputs))
        self._file = AnonymousFile(slots_bytes(inputs, outputs, SLOTS))
        self.descriptors = (self._file.descriptor,)
        self._slots = Slots(self._file.descriptor, inputs, outputs, SLOTS)

    def put(self, slot: int, arrays: Sequence[Array]) -> str:
        """Copy the inputs of a run to its *slot*; return what the process is told of sizes."""
        _copy(arrays, self._slots.inputs[slot])
        return ""

    def results(self, slot: int) -> list[Array]:
        """Return copies of the outputs in *slot*."""
        return [place.copy() for place in self._slots.outputs[slot]]


class OpenRuns:
    """Runs of a network with open sizes: a file for each slot, which grows.

    Attributes:
        descriptors: Lead to the files.
    """

    def __init__(self, native: NativeProgram) -> None:
        """Take memory for no run yet; raise OSError if the system gives no file."""
        assert native.open is not None
        self._types = {binding.name: binding.type for binding in native.inputs}
        self._symbols = native.open.symbols
        self._files = [AnonymousFile(1) for _ in range(SLOTS)]
        self.descriptors = tuple(file.descriptor for file in self._files)
        inputs, outputs = ([b.type for b in side] for side in (native.inputs, native.outputs))
        self._slots = OpenSlots(self.descriptors, inputs, outputs, self._symbols)
        self._outputs: list[list[Array]] = [[] for _ in self._files]

    def put(self, slot: int, arrays: Sequence[Array]) -> str:
        """Copy the inputs of a run to its *slot*; return what the process is told of sizes.

        Raises:
            GlowError: The run needs more memory than any tensor, or this process, may have.
            OSError: The system has no memory for a larger run.
        """
        shapes = {name: array.shape for name, array in zip(self._types, arrays, strict=True)}
        sizes = sizes_of_shapes(self._types, self._symbols, shapes)
        numbers = [sizes[symbol.name] for symbol in self._symbols]
        self._files[slot].grow(slots_bytes(self._slots.types_for(numbers), (), 1))
        places, self._outputs[slot] = self._slots.arrays(slot, numbers)
        _copy(arrays, places)
        return text_of_numbers(numbers)

    def results(self, slot: int) -> list[Array]:
        """Return copies of the outputs in *slot*."""
        return [place.copy() for place in self._outputs[slot]]


def _copy(arrays: Sequence[Array], places: Sequence[Array]) -> None:
    for place, array in zip(places, arrays, strict=True):
        np.copyto(place, array)
