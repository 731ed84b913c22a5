"""The weights of a program in one block of memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace

import numpy as np

from glow_nb.backends.cpu.shared_weights import SharedWeights, WeightPlace
from glow_nb.base.alignment import aligned_bytes, aligned_empty
from glow_nb.base.progress import report
from glow_nb.codegen.program_memory import PlacedWeight, ProgramMemory
from glow_nb.llir.program import Buffer, Weight
from glow_nb.system.cores import available_cores


class ConstantBlock:
    """All weights one after the other, each aligned for the kernels.

    Those that another program of the network holds already are read where they lie.

    Attributes:
        blocks: The memory of the weights that are made here, and that of others, if there is any.
        places: Where each weight lies in these blocks.
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
            size += aligned_bytes(weight.type.size_bytes)
        self._block = aligned_empty(size)
        self._held |= {weight: WeightPlace(self._block, offsets[weight]) for weight in self._made}
        blocks = {id(place.block): place.block for place in self._held.values()}
        blocks.pop(id(self._block), None)
        self.blocks = (self._block, *blocks.values())
        numbers = {id(block): number for number, block in enumerate(self.blocks)}
        self.places: dict[Buffer, PlacedWeight] = {
            weight: PlacedWeight(weight.name, weight.type, numbers[id(place.block)], place.offset)
            for weight, place in self._held.items()
        }

    @property
    def held(self) -> tuple[WeightPlace, ...]:
        """The places of all weights: others find the weights as long as these are kept."""
        return tuple(self._held.values())

    @property
    def size_bytes(self) -> int:
        """Memory of all weights, the borrowed ones too."""
        return sum(aligned_bytes(weight.type.size_bytes) for weight in self._weights)

    def memory(self, arena_bytes: int) -> ProgramMemory:
        """Return these constants beside an arena of *arena_bytes*; they may be filled later."""
        weights = tuple(self.places[weight] for weight in self._weights)
        return ProgramMemory(arena_bytes, self.blocks[0], self.blocks[1:], weights)

    @contextmanager
    def being_filled(self) -> Iterator[None]:
        """Make the weights that are not there, on every core, while the body of the statement runs.

        One is often the transpose of what the model holds, scaled, or transformed.
        """
        largest_first = sorted(self._made, key=lambda weight: -weight.type.size_bytes)
        with ThreadPoolExecutor(available_cores()) as pool:
            made = [pool.submit(self._make, weight) for weight in largest_first]
            yield
            for done, weight in enumerate(as_completed(made)):
                report("packing the weights", done, len(made))
                weight.result()
        self._shared.add({self._keys[weight]: self._held[weight] for weight in self._made})

    def _make(self, weight: Weight) -> None:
        with np.errstate(all="ignore"):  # weights may be anything
            weight.write_to(self.places[weight].array_in(self.blocks))


class Placed:
    """Weights that are in memory already, as those of a saved program are.

    Attributes:
        places: Where each weight lies.
        held: Nothing: others do not find these weights.
        size_bytes: Memory of all weights.
    """

    def __init__(self, weights: Sequence[Weight], memory: ProgramMemory) -> None:
        """Find *weights* by their names where *memory* has them."""
        by_name = {place.name: place for place in memory.weights}
        self._memory = memory
        self.places: dict[Buffer, PlacedWeight] = {w: by_name[w.name] for w in weights}
        self.held: tuple[WeightPlace, ...] = ()
        self.size_bytes = sum(aligned_bytes(weight.type.size_bytes) for weight in weights)

    def memory(self, arena_bytes: int) -> ProgramMemory:
        """Return these constants beside an arena of *arena_bytes*."""
        return replace(self._memory, arena_bytes=arena_bytes)

    def being_filled(self) -> AbstractContextManager[None]:
        """Make nothing."""
        return nullcontext()
