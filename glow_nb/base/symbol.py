"""The symbols that sizes are made of: names with a range and a hint."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from glow_nb.base.element_kind import ElementKind
from glow_nb.base.errors import OptionError
from glow_nb.base.guards import Guard
from glow_nb.base.override import override

MAX_SIZE = (1 << 31) - 1
"""The largest size of a symbol for which no range is given."""

RESERVED = frozenset(
    {"x", "scale", "true", "false", "nan", "inf", *(kind.value for kind in ElementKind)}
)
"""Words that mean something else where a size may stand, so that no symbol is called so."""


@dataclass(frozen=True)
class Symbol:
    """A named size, printed ``length in 1..512 like 128``.

    Attributes:
        name: An identifier, unique in a function.
        hint: The size of an example.
        low: The least size, 0 or more.
        high: The greatest size.
        guards: The comparisons that its range did not decide, in the order of asking.
    """

    name: str
    hint: int
    low: int = 1
    high: int = MAX_SIZE
    guards: dict[Guard, None] = field(default_factory=dict, compare=False, repr=False)
    as_size: ClassVar[Callable[[Symbol], object]]

    def __post_init__(self) -> None:
        if not (self.name.isascii() and self.name.isidentifier()):
            raise OptionError(
                f"size {self.name!r:.80}: it must be called by a word of letters, digits and _"
            )
        if self.name in RESERVED:
            raise OptionError(
                f"size {self.name!r}: this word has another meaning in the text of a graph; "
                f"call it {self.name}_size or the like"
            )
        if not 0 <= self.low <= self.high:
            raise OptionError(
                f"size {self.name!r}: the range {self.low}..{self.high} holds no size; "
                "give a least size of 0 or more and a greatest one that is not below it"
            )
        self.check(self.hint)

    @override
    def __reduce__(self) -> tuple[Any, ...]:
        # Guards are sizes of this very symbol, which they need whole.
        return Symbol, (self.name, self.hint, self.low, self.high), {"guards": self.guards}

    def check(self, size: int) -> None:
        """Raise OptionError unless *size* is in the range."""
        if not self.low <= size <= self.high:
            raise OptionError(
                f"size {self.name!r}: {size} is outside its range {self.low}..{self.high}"
            )

    @property
    def size(self) -> Any:
        """The size that it is."""
        return type(self).as_size(self)

    @property
    def bounds(self) -> tuple[int, int]:
        """The least and the greatest size."""
        return self.low, self.high

    @property
    def parts(self) -> int:
        """One: it is a factor of a size."""
        return 1

    def at(self, sizes: Mapping[str, int]) -> int:
        """Return its size among *sizes* by name."""
        return sizes[self.name]

    def with_symbols(self, symbols: Mapping[Symbol, Symbol | int]) -> Any:
        """Return the size of the one that *symbols* has in its place, or a number, or its own."""
        found = symbols.get(self, self)
        return found.size if isinstance(found, Symbol) else found

    @property
    def symbols(self) -> tuple[Symbol, ...]:
        """Itself."""
        return (self,)

    @override
    def __str__(self) -> str:
        return self.name

    @property
    def declaration(self) -> str:
        """Its name with its range and its hint."""
        return f"{self} in {self.low}..{self.high} like {self.hint}"


def example(place: int, low: int = 1, high: int = MAX_SIZE) -> int:
    """Return a hint for the symbol at a *place* among others, for which none is given.

    All are multiples of 32, which networks take that halve an image again and again, and no two
    are the same, so that no symbol is taken for another one.

    In a range that has an end it is near the middle, or near 512 where the middle lies above, as
    kernels that are planned for the least size are slow for large ones. Those of four places in
    turn differ there if the ranges have room.
    """
    usual = 32 * (place + 1)
    if high == MAX_SIZE:
        return fitted(usual, low, high)
    middle, first = min((low + high) // 2, max(low, 512)), 32 * (place % 4 + 1)
    near = first + max(0, middle - first + 64) // 128 * 128
    inside = (size for size in (near, near + 128, near - 128) if low <= size <= high and size)
    return next(inside, fitted(usual, low, high))


def fitted(size: int, low: int, high: int) -> int:
    """Return the least multiple of *size* in a range; without one, the number there next to it."""
    multiple = max(1, -(-low // size)) * size
    return multiple if multiple <= high else min(max(size, low), high)
