"""What a block of tensors holds of the sizes that it is laid out for, if some sizes are open."""

from __future__ import annotations

from dataclasses import dataclass

from glow_nb.codegen.native_program import NativeProgram

WORD_BYTES = 8


@dataclass(frozen=True)
class Area:
    """Places in an area of the block of tensors, counted in words of 8 bytes.

    The area begins as the struct of sizes that C gives does: with the sizes in order, then the
    bytes of tensors and arena. A first size of -1 says that nothing is laid out.

    Attributes:
        tensors_bytes: The size of the block of tensors; the sizes lie in front of it.
        arena_bytes: The size of the arena.
        scratch: Where scratch begins in the arena.
        words: The sizes as kernels read them.
        windows: The offset of each window from the beginning of the block that it is in.
        tensors: Offset and bytes of each input and output.
        lengths: The bytes of each activation.
        offsets: Where each activation begins in the arena.
        count: Words of the area.
    """

    tensors_bytes: int
    arena_bytes: int
    scratch: int
    words: int
    windows: int
    tensors: int
    lengths: int
    offsets: int
    count: int

    @classmethod
    def of(cls, native: NativeProgram) -> Area:
        """Return the area of *native*, a program with open sizes."""
        opened = native.open
        assert opened is not None
        activations, tensors = len(opened.placement.sizes), len(native.inputs) + len(native.outputs)
        counts = (1, 1, 1, len(opened.words) + 1, len(opened.windows), 2 * tensors)
        places = [len(opened.symbols)]
        for count in (*counts, activations, activations):
            places.append(places[-1] + count)
        return cls(*places)

    def tensor(self, number: int) -> int:
        """Return the word with the offset of an input or output; that of its bytes is the next."""
        return self.tensors + 2 * number

    @property
    def size_bytes(self) -> int:
        """Bytes of the area."""
        return WORD_BYTES * self.count
