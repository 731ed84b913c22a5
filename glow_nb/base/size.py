"""Sizes that are known when a network runs: polynomials in named symbols, such as ``2*length + 1``.

A :class:`Size` stands in shapes and attributes wherever a whole number may, and does arithmetic as
one. A comparison that the ranges of its symbols do not decide is answered by their hints, which
a symbol notes as a :class:`Guard`. Code that needs a plain number gets an :class:`OpenSizeError`,
which names the size: nothing takes a number for it in silence.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any, NoReturn, TypeGuard

from glow_nb.base import polynomial
from glow_nb.base.errors import GlowError, OptionError
from glow_nb.base.guards import OPPOSITE as OPPOSITE
from glow_nb.base.guards import RELATIONS, decided
from glow_nb.base.guards import Guard as Guard
from glow_nb.base.noted import note, noted
from glow_nb.base.open_size_error import open_error
from glow_nb.base.override import override
from glow_nb.base.polynomial_bounds import bounds_of
from glow_nb.base.quotient import Quotient
from glow_nb.base.size_as_code import PRINTS_CODE
from glow_nb.base.small_sizes import decided_by_small
from glow_nb.base.symbol import MAX_SIZE as MAX_SIZE
from glow_nb.base.symbol import RESERVED as RESERVED
from glow_nb.base.symbol import Symbol as Symbol
from glow_nb.base.symbol import example as example
from glow_nb.base.whole_numbers import at as at
from glow_nb.base.whole_numbers import bounds as bounds
from glow_nb.base.whole_numbers import symbols_in as symbols_in

Atom = Symbol | Quotient
Terms = polynomial.Terms[Atom]

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
    def parts(self) -> int:
        """The number of its terms and factors."""
        return polynomial.parts_of(self.terms)

    @cached_property
    def bounds(self) -> tuple[int, int]:
        """Numbers that it is never below and never above, not always the nearest ones.

        A quotient is ``(numerator - rest)/denominator``, with a rest below the denominator: so
        ``height - 2*(height/2)`` is 0 or 1, although its terms may be large.
        """
        least, greatest = bounds_of(self.terms)
        rounded = [factors for factors in self.terms if _is_rounded(factors)]
        if not rounded or len(self.terms) == 1:
            return least, greatest
        outer = max(rounded, key=lambda factors: factors[0].parts)  # others may be in it
        (quotient,), times = outer, self.terms[outer]
        denominator = quotient.denominator
        whole = (self - Size({outer: times})) * denominator + times * quotient.numerator
        low, high = bounds(whole)
        rests = (0, -times * (denominator - 1))
        least = max(least, -((-low - min(rests)) // denominator))
        return least, min(greatest, (high + max(rests)) // denominator)

    def at(self, sizes: Mapping[str, int]) -> int:
        """Return the number that it is for *sizes* by the name of the symbol."""
        total = 0
        for atoms, factor in self.terms.items():  # in plain loops: each new set of sizes waits
            for atom in atoms:
                factor *= atom.at(sizes)
            total += factor
        return total

    def with_symbols(self, symbols: Mapping[Symbol, Symbol | int]) -> int:
        """Return the same polynomial in other *symbols*, those that are given, or numbers."""
        return sum(
            factor * prod(atom.with_symbols(symbols) for atom in atoms)
            for atoms, factor in self.terms.items()
        )

    @override
    def __eq__(self, other: object) -> bool:
        return isinstance(other, Size) and self.terms == other.terms

    @override
    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash(frozenset(self.terms.items()))

    @override
    def __add__(self, other: int) -> int:
        return self._with(polynomial.total(self.terms, self._beside(other)))

    @override
    def __mul__(self, other: int) -> int:
        more = self._beside(other)
        if len(self.terms) * len(more) > polynomial.MOST_PARTS:
            self._refuse_parts()
        return self._with(polynomial.product(self.terms, more))

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
    def __pow__(self, exponent: int) -> int:  # type: ignore[override]
        if exponent > polynomial.MOST_PARTS:
            self._refuse_parts()
        return prod([self] * exponent)

    @override
    def __abs__(self) -> int:
        return self if self >= 0 else -self

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

    def _with(self, terms: Terms) -> int:
        """Return the sum of *terms*, which were computed from this one; refuse too many."""
        return _made(terms) if polynomial.is_simple(terms) else self._refuse_parts()

    def _refuse_parts(self) -> NoReturn:
        raise open_error(
            self,
            f"what is computed from it has more than {polynomial.MOST_PARTS} terms and factors, or "
            f"numbers of more than {polynomial.MOST_DIGITS} digits",
        )

    def _refuse(self, *_: object) -> NoReturn:
        raise open_error(
            self, "it is known only when the network runs, and a number is needed here"
        )

    __index__ = __int__ = __float__ = __truediv__ = __rtruediv__ = _refuse

    @override
    def __str__(self) -> str:
        return format(self) if PRINTS_CODE.get() else self.ir_text

    @override
    def __format__(self, _: str) -> str:
        """Return it as Python computes it, a factor of a longer text: ``((height + 1)//2)``."""
        return polynomial.bracketed(self.ir_text).replace("/", "//")

    __repr__ = __str__

    @property
    def ir_text(self) -> str:
        """The text of the IR, whatever ``str`` is at the moment."""
        before = PRINTS_CODE.set(False)
        try:
            return polynomial.text_of(self.terms)
        finally:
            PRINTS_CODE.reset(before)


def _is_rounded(factors: tuple[Atom, ...]) -> TypeGuard[tuple[Quotient]]:
    """Return whether *factors* are one quotient, by a number."""
    quotient = factors[0] if len(factors) == 1 else None
    return isinstance(quotient, Quotient) and not isinstance(quotient.denominator, Size)


Symbol.as_size = lambda symbol: Size({(symbol,): 1})  # sizes are made of symbols, not the reverse


def _terms(size: int) -> Terms:
    if isinstance(size, Size):
        return size.terms
    number = operator.index(size)
    return {(): number} if number else {}


def _made(terms: Terms) -> int:
    """Return the sum of *terms*: a plain number if it is one."""
    return Size(terms) if any(terms) else terms.get((), 0)


def _of_items(items: tuple[tuple[tuple[Atom, ...], int], ...]) -> int:
    return _made(dict(items))


def _quotient(numerator: int, denominator: int) -> int:
    """Return the quotient rounded down: what divides without rest stands outside the rounding."""
    if isinstance(denominator, Size) and bounds(denominator)[0] < 1:
        raise open_error(denominator, f"{numerator!s} is divided by it, and it may be 0 or less")
    if denominator == 0:
        raise GlowError(f"size {numerator!s} is divided by 0")
    if denominator < 0:
        numerator, denominator = -numerator, -denominator
    if not isinstance(denominator, Size) and all(n <= 0 for n in _terms(numerator).values()):
        return -_rounded_down(denominator - 1 - numerator, denominator)  # -(-n//2) is (n + 1)//2
    return _rounded_down(numerator, denominator)


def _rounded_down(numerator: int, denominator: int) -> int:
    quotient, rest = map(_made, polynomial.divided(_terms(numerator), _terms(denominator)))
    for least, step in ((0, 0), (-denominator, 1)):
        if surely(rest, ">=", least) and surely(rest, "<", least + denominator):
            return quotient - step
    if isinstance(denominator, Size):  # of which a part of the numerator says little
        quotient, rest = 0, numerator
    elif not isinstance(rest, Size):
        return quotient + rest // denominator
    else:
        rest, denominator = _rounded_once(rest, denominator)
    return quotient + Size({(Quotient(rest, denominator),): 1})


def _rounded_once(numerator: Size, denominator: int) -> tuple[int, int]:
    """Return the quotient without one inside: ``(n/2 + 1)/2`` is ``(n + 2)/4``, rounded once."""
    rounded = [factors for factors in numerator.terms if _is_rounded(factors)]
    if len(rounded) != 1 or numerator.terms[rounded[0]] != 1:
        return numerator, denominator
    quotient, others = rounded[0][0], numerator - Size({rounded[0]: 1})
    return others * quotient.denominator + quotient.numerator, denominator * quotient.denominator


def whole_part(number: int, step: int) -> tuple[int, int]:
    """Return ``times`` and ``rest`` of ``number == times * step + rest``, polynomials both.

    The rest has no term that the leading one of *step* divides; its size may be anything.
    """
    times, rest = map(_made, polynomial.divided(_terms(number), _terms(step)))
    return times, rest


def symbols_of(*sizes: int) -> tuple[Symbol, ...]:
    """Return the symbols in *sizes*, each once."""
    return symbols_in(sizes)


def same(left: int, right: int) -> bool:
    """Return whether two sizes are the same number; what ranges leave open, hints answer."""
    return left == right or (
        (isinstance(left, Size) or isinstance(right, Size)) and _compare(left, "==", right)
    )


def same_shape(left: Sequence[int], right: Sequence[int]) -> bool:
    """Return whether two shapes have the same sizes, as :func:`same` answers."""
    return len(left) == len(right) and all(map(same, left, right))


def _compare(left: int, relation: str, right: int) -> bool:
    """Return whether the *relation* holds; what nothing decides, hints answer, which is noted."""
    difference = left - right
    if not isinstance(difference, Size):
        return RELATIONS[relation](difference, 0)
    known = _known(relation, difference)
    if known is not None:
        return known
    symbols = difference.symbols
    answer = RELATIONS[relation](hinted(difference), 0)
    guard = Guard(left, relation if answer else OPPOSITE[relation], right)
    if len(guard.symbols) > len(symbols):  # it does not depend on some of them
        guard = Guard(difference, guard.relation, 0)
    note(guard, symbols[0].guards)
    return answer


def _known(relation: str, difference: Size) -> bool | None:
    """Return whether ``difference <relation> 0`` by ranges and guards; None if they do not say."""
    known = decided(relation, difference.bounds)
    symbols = difference.symbols
    if known is None:
        guards = noted(symbols[0].guards)
        said = (guard.decides(relation, difference) for guard in guards)
        known = next((answer for answer in said if answer is not None), None)
        if known is None and not isinstance(number := _by_equations(difference, guards), Size):
            known = RELATIONS[relation](number, 0)
    if known is None and len(symbols) == 1:
        known = decided_by_small(relation, difference, symbols[0])
    return known


def _by_equations(size: int, guards: Sequence[Guard]) -> int:
    """Return *size* with the right side of an equation instead of a left one that is a product."""
    for guard in reversed(guards):  # the last ones are about what follows from the first
        if guard.relation == "==" and isinstance(size, Size) and isinstance(guard.left, Size):
            factors, *others = guard.left.terms
            if not others and guard.left.terms[factors] == 1:
                size -= (guard.left - guard.right) * size.terms.get(factors, 0)
    return size


def note_again(guard: Guard) -> None:
    """Note *guard*, which held for other symbols before, unless its own symbols decide it."""
    difference = guard.left - guard.right
    if isinstance(difference, Size) and _known(guard.relation, difference) is None:
        note(guard, guard.symbols[0].guards)


def surely(left: int, relation: str, right: int) -> bool:
    """Return whether the *relation* holds whatever the sizes are, as far as ranges show it."""
    difference = left - right
    if not isinstance(difference, Size):
        return RELATIONS[relation](difference, 0)
    return decided(relation, difference.bounds) is True


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
