"""Sizes that are known when a network runs: polynomials in named symbols, such as ``2*length + 1``.

A :class:`Size` stands in shapes and attributes wherever a whole number may, and does arithmetic as
one. A comparison that the ranges of its symbols do not decide is answered by their hints, which
a symbol notes as a :class:`Guard`. Code that needs a plain number gets an :class:`OpenSizeError`,
which names the size: nothing takes a number for it in silence.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any, NoReturn

from glow_nb.base.errors import GlowError, OptionError
from glow_nb.base.override import override

MAX_SIZE = (1 << 31) - 1
"""The largest size of a symbol for which no range is given."""

RESERVED = ("x", "scale", "true", "false", "nan", "inf")
"""Words that mean something else where a size may stand, so that no symbol is called so."""

_RELATIONS: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}


class OpenSizeError(GlowError):
    """A plain number is needed where a ``size`` is known only when the network runs."""

    size: Size


@dataclass(frozen=True)
class Guard:
    """A comparison that was answered by hints: what is made of the answer holds where it holds."""

    left: int
    relation: str
    right: int

    @override
    def __str__(self) -> str:
        return f"{self.left!s} {self.relation} {self.right!s}"

    @property
    def symbols(self) -> tuple[Symbol, ...]:
        """The symbols in it."""
        return symbols_of(self.left, self.right)

    @override
    def __reduce__(self) -> tuple[Any, ...]:
        return Guard, (self.left, self.relation, self.right)

    def holds(self, sizes: Mapping[str, int]) -> bool:
        """Return whether it is so for *sizes* by the name of the symbol."""
        return _RELATIONS[self.relation](at(self.left, sizes), at(self.right, sizes))


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

    def __post_init__(self) -> None:
        if not (self.name.isascii() and self.name.isidentifier()) or self.name in RESERVED:
            raise OptionError(
                f"size {self.name!r:.80}: it must be called by a word of letters, digits and _ "
                f"other than {', '.join(RESERVED)}"
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
    def size(self) -> Size:
        """The size that it is."""
        return Size({(self,): 1})

    @property
    def bounds(self) -> tuple[int, int]:
        """The least and the greatest size."""
        return self.low, self.high

    def at(self, sizes: Mapping[str, int]) -> int:
        """Return its size among *sizes* by name."""
        return sizes[self.name]

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
    """
    return min(max(low, 32 * (place + 1)), high)


@dataclass(frozen=True)
class Quotient:
    """A quotient rounded down, printed ``(height + 1)/2``."""

    numerator: int
    denominator: int

    @override
    def __reduce__(self) -> tuple[Any, ...]:
        return Quotient, (self.numerator, self.denominator)

    @property
    def bounds(self) -> tuple[int, int]:
        """The least and the greatest quotient; the denominator is positive."""
        (least, greatest), (small, large) = bounds(self.numerator), bounds(self.denominator)
        ends = [n // d for n in (least, greatest) for d in (small, large)]
        return min(ends), max(ends)

    def at(self, sizes: Mapping[str, int]) -> int:
        """Return the quotient for *sizes* by the name of the symbol."""
        return at(self.numerator, sizes) // at(self.denominator, sizes)

    @property
    def symbols(self) -> tuple[Symbol, ...]:
        """The symbols in it."""
        return (*symbols_of(self.numerator), *symbols_of(self.denominator))

    @override
    def __str__(self) -> str:
        return f"{_factor(self.numerator)}/{_factor(self.denominator)}"


Atom = Symbol | Quotient
Terms = dict[tuple[Atom, ...], int]
"""Coefficients by what they are multiplied with, whose factors are in the order of their text."""

if TYPE_CHECKING:
    _WholeNumber = int  # to a type checker it is one; those that need a plain one find out
else:
    _WholeNumber = object


class Size(_WholeNumber):
    """A polynomial with whole coefficients in symbols and quotients.

    Sizes are equal if they are the same polynomial, whatever numbers may make two of them equal:
    so equality needs no guard, and types can be compared (:func:`same` asks for the numbers).
    """

    if TYPE_CHECKING:

        def __new__(cls, terms: Terms) -> Size:
            """Return the sum of *terms*."""

    def __init__(self, terms: Terms) -> None:
        """Be the sum of *terms*, of which none is zero and one is not constant."""
        self.terms = terms

    @override
    def __reduce__(self) -> tuple[Any, ...]:
        return _of_items, (tuple(self.terms.items()),)  # since keys must be whole to be in a dict

    @cached_property
    def symbols(self) -> tuple[Symbol, ...]:
        """The symbols in it, each once, by name: equal sizes have them in the same order."""
        found = (s for atoms in self.terms for atom in atoms for s in atom.symbols)
        return tuple(sorted(dict.fromkeys(found), key=str))

    @cached_property
    def bounds(self) -> tuple[int, int]:
        """Numbers that it is never below and never above, not always the nearest ones."""
        least, greatest = 0, 0
        for atoms, factor in self.terms.items():
            low, high = factor, factor
            for atom in atoms:
                ends = [n * m for n in (low, high) for m in atom.bounds]
                low, high = min(ends), max(ends)
            least, greatest = least + low, greatest + high
        return least, greatest

    def at(self, sizes: Mapping[str, int]) -> int:
        """Return the number that it is for *sizes* by the name of the symbol."""
        return sum(
            factor * prod(atom.at(sizes) for atom in atoms) for atoms, factor in self.terms.items()
        )

    def with_symbols(self, symbols: Mapping[Symbol, Symbol]) -> int:
        """Return the same polynomial in other *symbols*, those that are given."""
        return sum(
            factor * prod(_replaced(atom, symbols) for atom in atoms)
            for atoms, factor in self.terms.items()
        )

    @override
    def __eq__(self, other: object) -> bool:
        return isinstance(other, Size) and self.terms == other.terms

    @override
    def __hash__(self) -> int:
        return hash(frozenset(self.terms.items()))

    @override
    def __add__(self, other: int) -> int:
        terms = dict(self.terms)
        for atoms, factor in self._beside(other).items():
            terms[atoms] = terms.get(atoms, 0) + factor
        return _made(terms)

    @override
    def __mul__(self, other: int) -> int:
        terms: Terms = {}
        for atoms, factor in self.terms.items():
            for others, times in self._beside(other).items():
                product = tuple(sorted((*atoms, *others), key=str))
                terms[product] = terms.get(product, 0) + factor * times
        return _made(terms)

    __radd__, __rmul__ = __add__, __mul__

    @override
    def __neg__(self) -> int:
        return self * -1

    @override
    def __sub__(self, other: int) -> int:
        return self + other * -1

    @override
    def __rsub__(self, other: int) -> int:
        return self * -1 + other

    @override
    def __floordiv__(self, other: int) -> int:
        return _quotient(self, other)

    @override
    def __rfloordiv__(self, other: int) -> int:
        return _quotient(other, self)

    @override
    def __mod__(self, other: int) -> int:
        return self - self // other * other

    @override
    def __rmod__(self, other: int) -> int:
        return other - other // self * self

    @override
    def __lt__(self, other: int) -> bool:
        return _compare(self, "<", other)

    @override
    def __le__(self, other: int) -> bool:
        return _compare(self, "<=", other)

    @override
    def __gt__(self, other: int) -> bool:
        return _compare(self, ">", other)

    @override
    def __ge__(self, other: int) -> bool:
        return _compare(self, ">=", other)

    @override
    def __bool__(self) -> bool:
        return not same(self, 0)

    def _beside(self, other: int) -> Terms:
        """Return *other*, which is added or multiplied, as terms; only a whole number has some."""
        return _terms(other) if hasattr(other, "__index__") else self._refuse()

    def _refuse(self, *_: object) -> NoReturn:
        error = OpenSizeError(
            f"size {self!s}: it is known only when the network runs, and a number is needed here; "
            "give the sizes first, glow_nb.load(function, shapes={...})"
        )
        error.size = self
        raise error

    __index__ = __int__ = __float__ = __truediv__ = __rtruediv__ = _refuse

    @override
    def __str__(self) -> str:
        ordered = sorted(self.terms.items(), key=lambda term: (-len(term[0]), *map(str, term[0])))
        text = ""
        for atoms, factor in ordered:
            sign = (" - " if factor < 0 else " + ") if text else "-" * (factor < 0)
            factors = [str(abs(factor))] if abs(factor) != 1 or not atoms else []
            is_alone = len(factors) + len(atoms) == 1
            factors += [str(atom) if is_alone else _factor(atom) for atom in atoms]
            text += sign + "*".join(factors)
        return text

    @override
    def __format__(self, _: str) -> str:
        """Return it as Python computes it, a factor of a longer text: ``((height + 1)//2)``."""
        return _factor(self).replace("/", "//")

    __repr__ = __str__


def _terms(size: int) -> Terms:
    return size.terms if isinstance(size, Size) else {(): operator.index(size)}


def _made(terms: Terms) -> int:
    """Return the sum of *terms*: a plain number if it is one."""
    kept = {atoms: factor for atoms, factor in terms.items() if factor}
    return Size(kept) if any(kept) else kept.get((), 0)


def _of_items(items: tuple[tuple[tuple[Atom, ...], int], ...]) -> int:
    return _made(dict(items))


def _quotient(numerator: int, denominator: int) -> int:
    """Return the quotient rounded down: what divides without rest stands outside the rounding."""
    if bounds(denominator)[0] < 1:
        raise GlowError(f"size {numerator!s} divided by {denominator!s}, which may be 0 or less")
    whole, rest = 0, numerator
    lead, divisor = max(_terms(denominator).items(), key=_degree)
    for atoms, factor in _terms(numerator).items():
        others = _without(atoms, lead)
        if others is not None and (not lead or factor % divisor == 0):
            step = _made({others: factor // divisor})
            whole, rest = whole + step, rest - step * denominator
    if not isinstance(rest, Size) and (rest == 0 or not lead):
        return whole + (rest // denominator if rest else 0)
    if isinstance(denominator, Size):  # of which a part of the numerator says little
        whole, rest = 0, numerator
    return whole + Size({(Quotient(rest, denominator),): 1})


def _replaced(atom: Atom, symbols: Mapping[Symbol, Symbol]) -> int:
    if isinstance(atom, Symbol):
        return symbols.get(atom, atom).size
    numerator, denominator = (
        n.with_symbols(symbols) if isinstance(n, Size) else n
        for n in (atom.numerator, atom.denominator)
    )
    return numerator // denominator


def _degree(term: tuple[tuple[Atom, ...], int]) -> tuple[int, tuple[str, ...]]:
    return len(term[0]), tuple(map(str, term[0]))


def _without(atoms: tuple[Atom, ...], removed: tuple[Atom, ...]) -> tuple[Atom, ...] | None:
    """Return *atoms* without those *removed*, None if it does not have them all."""
    left = list(atoms)
    for atom in removed:
        if atom not in left:
            return None
        left.remove(atom)
    return tuple(left)


def _factor(size: int | Atom) -> str:
    """Return *size* as it stands in a product: in brackets if it is more than one factor."""
    text = str(size)
    return text if text.isidentifier() or text.isdigit() else f"({text})"


def bounds(size: int) -> tuple[int, int]:
    """Return numbers that *size* is never below and never above."""
    return size.bounds if isinstance(size, Size) else (size, size)


def at(size: int, sizes: Mapping[str, int]) -> int:
    """Return the number that *size* is for *sizes* by the name of the symbol."""
    return size.at(sizes) if isinstance(size, Size) else size


def symbols_of(*sizes: int) -> tuple[Symbol, ...]:
    """Return the symbols in *sizes*, each once."""
    found = (s for size in sizes if isinstance(size, Size) for s in size.symbols)
    return tuple(dict.fromkeys(found))


def symbols_in(values: Iterable[object]) -> tuple[Symbol, ...]:
    """Return the symbols in *values*, each once: sizes stand there alone, or in tuples."""
    found: dict[Symbol, None] = {}
    for value in values:
        if isinstance(value, Size):
            found.update(dict.fromkeys(value.symbols))
        elif isinstance(value, tuple):
            found.update(dict.fromkeys(symbols_in(value)))
    return tuple(found)


def same(left: int, right: int) -> bool:
    """Return whether two sizes are the same number; what ranges leave open, hints answer."""
    return left == right or (
        (isinstance(left, Size) or isinstance(right, Size)) and _compare(left, "==", right)
    )


def _compare(left: int, relation: str, right: int) -> bool:
    """Return whether the *relation* holds, from ranges or else from hints, which is noted."""
    difference = left - right
    holds = _RELATIONS[relation]
    if not isinstance(difference, Size):
        return holds(difference, 0)
    least, greatest = difference.bounds
    is_order = relation not in ("==", "!=")
    if not least <= 0 <= greatest or (is_order and holds(least, 0) == holds(greatest, 0)):
        return holds(least, 0)
    symbols = difference.symbols
    answer = holds(difference.at({symbol.name: symbol.hint for symbol in symbols}), 0)
    guard = Guard(left, relation if answer else OPPOSITE[relation], right)
    symbols[0].guards[guard] = None
    return answer


def surely(left: int, relation: str, right: int) -> bool:
    """Return whether the *relation* holds whatever the sizes are, as far as ranges show it."""
    difference = left - right
    if not isinstance(difference, Size):
        return _RELATIONS[relation](difference, 0)
    least, greatest = difference.bounds
    if relation == "==":
        return least == greatest == 0
    if relation == "!=":
        return not least <= 0 <= greatest
    return _RELATIONS[relation](greatest if relation[0] == "<" else least, 0)


def hinted(size: int) -> int:
    """Return the number that *size* is for the sizes of the example."""
    if not isinstance(size, Size):
        return size
    return size.at({symbol.name: symbol.hint for symbol in size.symbols})


def require(left: int, relation: str, right: int) -> None:
    """Note the guard that the *relation* holds; raise OptionError if it does not for the hints."""
    if not _compare(left, relation, right):
        raise OptionError(
            f"sizes where {Guard(left, relation, right)}: it is not so for the sizes of the "
            "example; give hints for which it is"
        )


OPPOSITE = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}
"""Each relation of a guard, and the one that holds where it does not."""
