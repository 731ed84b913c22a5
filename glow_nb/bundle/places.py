"""Where a program of a bundle finds its memory: at fixed places, or at those laid out for sizes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from glow_nb.bundle.area import WORD_BYTES, Area
from glow_nb.bundle.plan import Bundle, BundledFunction, scratch_offset
from glow_nb.codegen.native_program import NativeProgram


@dataclass(frozen=True)
class Place:
    """A place in a block of memory.

    Attributes:
        block: The constants, the tensors or the arena.
        offset: Bytes from the beginning of the block.
        word: If open sizes tell the offset: the word of the area that has it.
    """

    block: str
    offset: int = 0
    word: int | None = None

    def lines(self, name: str) -> list[str]:
        """Return the lines that let ``%<name>`` be its address."""
        offset, lines = str(self.offset), []
        if self.word is not None:
            offset = f"%{name}_offset"
            lines = load_word(self.word, offset)
        return [*lines, f"  %{name} = getelementptr i8, ptr %{self.block}, i64 {offset}"]


def load_word(word: int, operand: str) -> list[str]:
    """Return the lines that load *operand* from a *word* of the area."""
    return [
        f"  {operand}_word = getelementptr i64, ptr %area, i64 {word}",
        f"  {operand} = load i64, ptr {operand}_word",
    ]


class Places:
    """The places of one program.

    Attributes:
        bound: What the program is bound to, in order.
        tensors: The inputs and outputs.
        scratch: The working memory of its kernels.
        area: Where the words of the area stand, if sizes are open.
    """

    def __init__(self, bundle: Bundle, function: BundledFunction, native: NativeProgram) -> None:
        """Find the places of *native*, the program of *function* for a processor."""
        states = {state.name: state.offset for state in bundle.states}
        own = [Place("constants", bundle.constants.offset_of(b)) for b in native.memory.borrowed]
        own += [Place("tensors", states[state.name]) for state in native.state]
        tensors = (*function.inputs, *function.outputs)
        opened = native.open
        self.area = Area.of(native) if opened is not None else None
        if opened is None or self.area is None:
            self.tensors = [Place("tensors", tensor.offset) for tensor in tensors]
            self.scratch = Place("arena", scratch_offset(native))
            self.bound = [*own, *self.tensors]
            return
        area = self.area
        self.tensors = [Place("tensors", word=area.tensor(n)) for n in range(len(tensors))]
        self.scratch = Place("arena", word=area.scratch)
        own.append(Place("tensors", bundle.area_offset + WORD_BYTES * area.words))
        windows = opened.windows
        before, behind = [place.block for place in own], ["tensors"] * len(tensors)
        blocks = [*before, *("" for _ in windows), *behind]
        for number, window in enumerate(windows):
            kinds = {"activation": "arena", "constants": "constants"}
            block = kinds.get(window.space) or blocks[window.number]
            own.append(Place(block, word=area.windows + number))
        self.bound = [*own, *self.tensors]

    def bind_lines(self) -> Iterator[str]:
        """Yield the lines that write what the program is bound to, to ``%bindings``."""
        for number, place in enumerate(self.bound):
            yield from place.lines(f"a{number}")
            yield f"  %b{number} = getelementptr ptr, ptr %bindings, i64 {number}"
            yield f"  store ptr %a{number}, ptr %b{number}"
