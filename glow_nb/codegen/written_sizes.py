"""The open sizes of a program as plain data: a declaration, and the text of each size in it.

The texts are those of the IR (:mod:`glow_nb.base.size_text`)::

    {"sizes": "<batch in 1..8 like 4>", "guards": [["2*batch", "<=", 12]], "words": ["batch"], ...}

Guards are no part of the declaration: what the ranges and other guards say of them takes long to
find out, and was asked when the program was made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from glow_nb.base.errors import GlowError
from glow_nb.base.guards import RELATIONS
from glow_nb.base.placement_order import PlacementOrder
from glow_nb.base.size import Guard, Size
from glow_nb.base.size_text import format_symbols, read_size, read_symbols
from glow_nb.base.tokens import TokenStream
from glow_nb.codegen.open_sizes import SPACES, OpenSizes, Window

Plain = Mapping[str, Any]


def written(size: int) -> int | str:
    """Return *size* as a number, or as the text of one that is open."""
    return str(size) if isinstance(size, Size) else size


class WrittenSizes:
    """What reads sizes back that were written with the symbols of a program.

    Attributes:
        symbols: The symbols by name.
    """

    def __init__(self, declaration: str = "") -> None:
        """Read the *declaration* of the symbols; nothing declares none.

        Raises:
            ParseError: It is no declaration.
        """
        reader = TokenStream(declaration, "sizes")
        self.symbols = read_symbols(reader)
        if reader.token.kind != "end":
            raise reader.error("unexpected text after the sizes")
        self._known: dict[str, int] = {}
        self._quotients = reader.quotients

    def read(self, plain: object) -> int:
        """Return the size that *plain*, a result of :func:`written`, represents.

        Raises:
            GlowError: It is no size, or one of other symbols.
        """
        if type(plain) is int:
            return plain
        if not isinstance(plain, str):
            raise GlowError(f"{plain!r:.80} stands where a size should be")
        if plain not in self._known:
            reader = TokenStream(plain, "sizes")
            reader.symbols, reader.quotients = self.symbols, self._quotients
            self._known[plain] = read_size(reader)
            if reader.token.kind != "end":
                raise reader.error("unexpected text after the size")
        return self._known[plain]

    def guard(self, left: object, relation: str, right: object) -> Guard:
        """Return the comparison of two sizes; raise KeyError if it is none."""
        _ = RELATIONS[relation]
        return Guard(self.read(left), relation, self.read(right))

    def shape(self, plain: Sequence[object]) -> tuple[int, ...]:
        """Return the sizes that *plain* represents."""
        return tuple(map(self.read, plain))


def open_to_plain(opened: OpenSizes) -> Plain:
    """Return *opened* as plain data."""
    placement = opened.placement
    return {
        "sizes": format_symbols(opened.symbols, ()),
        "guards": [[written(g.left), g.relation, written(g.right)] for g in opened.guards],
        "words": [symbol.name for symbol in opened.words],
        "scratch": list(map(written, opened.scratch_bytes)),
        "activations": list(map(written, placement.sizes)),
        "order": list(placement.order),
        "before": list(map(list, placement.before)),
        "windows": [[w.space, w.number, written(w.offset_bytes)] for w in opened.windows],
    }


def open_from_plain(plain: Plain) -> tuple[OpenSizes, WrittenSizes]:
    """Return what :func:`open_to_plain` wrote, and what reads other sizes of the program.

    Raises:
        GlowError: It is not well-formed.
    """
    try:
        sizes = WrittenSizes(plain["sizes"])
        opened = OpenSizes(
            symbols=tuple(sizes.symbols.values()),
            guards=tuple(sizes.guard(*each) for each in plain["guards"]),
            words=tuple(sizes.symbols[name] for name in plain["words"]),
            scratch_bytes=sizes.shape(plain["scratch"]),
            placement=PlacementOrder(
                sizes.shape(plain["activations"]),
                tuple(map(int, plain["order"])),
                tuple(tuple(map(int, others)) for others in plain["before"]),
            ),
            windows=tuple(_window(sizes, *window) for window in plain["windows"]),
        )
    except (ValueError, TypeError, KeyError, OverflowError) as error:
        raise GlowError(f"these are no open sizes of a program: {error!s:.80}") from error
    return opened, sizes


def _window(sizes: WrittenSizes, space: Any, number: int, offset: int | str) -> Window:
    return Window(SPACES[SPACES.index(space)], int(number), sizes.read(offset))
