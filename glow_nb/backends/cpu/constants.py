"""The weights of a program in one block of memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np

from glow_nb.backends.cpu.shared_weights import SharedWeights, WeightPlace
from glow_nb.codegen.cores import available_cores
from glow_nb.codegen.threads import ALIGNMENT, aligned_empty
from glow_nb.llir.program import Buffer, Weight
from glow_nb.types import Array


class ConstantBlock:
    """All weights one after the other, each aligned for the kernels.

    Those that another program of the network holds already are read where they lie.

    Attributes:
        block: The memory of the weights that are made here.
        borrowed: The memory of other blocks.
        places: For each weight the block it lies in, 0 for the own and else one more than the
            index in ``borrowed``, and the bytes from its beginning.
    """

    def __init__(self, weights: Sequence[Weight], shared: SharedWeights | None = None) -> None:
        """Give every weight its place; nothing is copied yet."""
        self._weights, self._shared = weights, shared or SharedWeights()
        self._keys = {w: self._shared.key(w.payload) if shared else None for w in weights}
        # As long as these places are held, so are the blocks.
        self._held = {w: place for w in weights if (place := self._shared.find(self._keys[w]))}
        self._made = [weight for weight in weights if weight not in self._held]
        offsets: dict[Weight, int] = {}
        size = 0
        for weight in self._made:
            offsets[weight] = size
            size += _aligned(weight)
        self.block = aligned_empty(size)
        self._held |= {weight: WeightPlace(self.block, offsets[weight]) for weight in self._made}
        blocks = {id(place.block): place.block for place in self._held.values()}
        blocks.pop(id(self.block), None)
        self.borrowed = list(blocks.values())
        numbers = {id(self.block): 0, **{key: n for n, key in enumerate(blocks, 1)}}
        self.places: dict[Buffer, tuple[int, int]] = {
            weight: (numbers[id(place.block)], place.offset) for weight, place in self._held.items()
        }

    @property
    def held(self) -> tuple[WeightPlace, ...]:
        """The places of all weights: others find the weights as long as these are kept."""
        return tuple(self._held.values())

    @property
    def size_bytes(self) -> int:
        """Memory of all weights, the borrowed ones too."""
        return sum(map(_aligned, self._weights))

    @property
    def arrays(self) -> dict[str, Array]:
        """The weights by name, as arrays that cannot be written."""
        arrays = {weight.name: self._array(weight) for weight in self._weights}
        for array in arrays.values():
            array.flags.writeable = False
        return arrays

    @contextmanager
    def being_filled(self) -> Iterator[None]:
        """Make the weights that are not there, on every core, while the body of the statement runs.

        One is often the transpose of what the model holds, scaled, or transformed.
        """
        largest_first = sorted(self._made, key=lambda weight: -weight.type.size_bytes)
        with ThreadPoolExecutor(available_cores()) as pool:
            made = [pool.submit(self._make, weight) for weight in largest_first]
            yield
        for weight in made:
            weight.result()
        self._shared.add({self._keys[weight]: self._held[weight] for weight in self._made})

    def _make(self, weight: Weight) -> None:
        with np.errstate(all="ignore"):  # weights may be anything
            weight.write_to(self._array(weight))

    def _array(self, weight: Weight) -> Array:
        held, type = self._held[weight], weight.type
        place = held.block[held.offset : held.offset + type.size_bytes]
        return place.view(type.kind.dtype).reshape(type.shape)


def _aligned(weight: Weight) -> int:
    """Return the bytes from *weight* to what lies behind it."""
    return -(-weight.type.size_bytes // ALIGNMENT) * ALIGNMENT
