"""The weights of a program in one block of memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np

from glow_nb.codegen.cores import available_cores
from glow_nb.codegen.threads import ALIGNMENT, aligned_empty
from glow_nb.llir.program import Buffer, Weight
from glow_nb.types import Array


class ConstantBlock:
    """All weights one after the other, each aligned for the kernels.

    Attributes:
        offsets: Bytes from the beginning of the block to each weight.
        block: The memory.
    """

    def __init__(self, weights: Sequence[Weight]) -> None:
        """Give every weight its place; nothing is copied yet."""
        self.offsets: dict[Buffer, int] = {}
        size = 0
        for weight in weights:
            self.offsets[weight] = size
            size += -(-weight.type.size_bytes // ALIGNMENT) * ALIGNMENT
        self.block = aligned_empty(size)
        self._weights = weights

    @property
    def arrays(self) -> dict[str, Array]:
        """The weights in the block by name, as arrays that cannot be written."""
        arrays = {weight.name: self._array(weight) for weight in self._weights}
        for array in arrays.values():
            array.flags.writeable = False
        return arrays

    @contextmanager
    def being_filled(self) -> Iterator[None]:
        """Make all weights in their places, on every core, while the body of the statement runs.

        One is often the transpose of what the model holds, scaled, or transformed.
        """
        largest_first = sorted(self._weights, key=lambda weight: -weight.type.size_bytes)
        with ThreadPoolExecutor(available_cores()) as pool:
            made = [pool.submit(self._make, weight) for weight in largest_first]
            yield
        for weight in made:
            weight.result()

    def _make(self, weight: Weight) -> None:
        with np.errstate(all="ignore"):  # weights may be anything
            weight.write_to(self._array(weight))

    def _array(self, weight: Weight) -> Array:
        start, type = self.offsets[weight], weight.type
        place = self.block[start : start + type.size_bytes]
        return place.view(type.kind.dtype).reshape(type.shape)
