"""The memory that a native program works in: its constants, and how much besides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from glow_nb.base.alignment import ALIGNMENT, Bytes
from glow_nb.base.errors import CompileError
from glow_nb.base.override import override
from glow_nb.base.types import Array, TensorType


@dataclass(frozen=True)
class PlacedWeight:
    """Where a weight lies.

    Attributes:
        name: Its name in the model.
        type: Its type.
        block: 0 for the program's own constants, otherwise one more than the index of a borrowed
            block.
        offset_bytes: From the beginning of that block.
    """

    name: str
    type: TensorType
    block: int
    offset_bytes: int

    def array_in(self, blocks: Sequence[Bytes]) -> Array:
        """Return the weight as an array that lies in its block among *blocks*."""
        end = self.offset_bytes + self.type.size_bytes
        place = blocks[self.block][self.offset_bytes : end]
        return place.view(self.type.kind.dtype).reshape(self.type.shape)


@dataclass(frozen=True, eq=False)
class ProgramMemory:
    """Constants in blocks of memory, and the size of the arena.

    Attributes:
        arena_bytes: The memory that holds the activations of one run.
        constants: The program's own block of constants; it is referred to and never copied.
        borrowed: Blocks of constants that belong to other programs. Regions name them as the first
            bindings.
        weights: Where the weights lie in these blocks.
    """

    arena_bytes: int
    constants: Bytes
    borrowed: tuple[Bytes, ...] = ()
    weights: tuple[PlacedWeight, ...] = ()

    def __post_init__(self) -> None:
        if self.arena_bytes < 0:
            raise CompileError(f"arena: {self.arena_bytes} bytes; give the size of a block")
        if any(block.ctypes.data % ALIGNMENT and block.size for block in self.blocks):
            raise CompileError(f"constants: not aligned to {ALIGNMENT} bytes; use aligned_empty")
        for weight in self.weights:
            self._check_place(weight)

    @property
    def blocks(self) -> tuple[Bytes, ...]:
        """All blocks of constants, the program's own first."""
        return (self.constants, *self.borrowed)

    @property
    def arrays(self) -> dict[str, Array]:
        """The weights by name, as arrays that lie in these blocks and cannot be written."""
        arrays = {weight.name: weight.array_in(self.blocks) for weight in self.weights}
        for array in arrays.values():
            array.flags.writeable = False
        return arrays

    def _check_place(self, weight: PlacedWeight) -> None:
        if not 0 <= weight.block < len(self.blocks):
            raise CompileError(
                f"weight {weight.name!r}: in block {weight.block} of {len(self.blocks)}"
            )
        size, end = self.blocks[weight.block].nbytes, weight.offset_bytes + weight.type.size_bytes
        if weight.offset_bytes % ALIGNMENT or not 0 <= weight.offset_bytes <= end <= size:
            raise CompileError(
                f"weight {weight.name!r}: bytes {weight.offset_bytes} to {end} are no aligned part "
                f"of a block of {size} bytes"
            )

    @override
    def __repr__(self) -> str:
        sizes = ", ".join(str(block.nbytes) for block in self.blocks)
        return f"<arena of {self.arena_bytes} bytes, constants in blocks of {sizes} bytes>"
