"""The sizes that the shapes of feeds determine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from glow_nb.base.errors import FeedError
from glow_nb.base.fitting_sizes import nearest_fits
from glow_nb.base.size import Guard, Size, Symbol, at
from glow_nb.base.types import TensorType


def sizes_of_shapes(
    types: Mapping[str, TensorType],
    symbols: Sequence[Symbol],
    shapes: Mapping[str, tuple[int, ...]],
    given: Mapping[str, int] = MappingProxyType({}),
) -> dict[str, int]:
    """Return the size of each of *symbols* for inputs of *shapes* by name, which have *types*.

    Some sizes may be *given*. What of a shape is no open size is left to the check of the feeds.

    Raises:
        FeedError: A symbol gets different sizes, or nothing tells what it is, or a size that is
            computed of symbols is another one.
    """
    sizes = dict(given)
    tellers = dict.fromkeys(given, "what is given by name")
    for name, type in types.items():
        for axis, (size, number) in enumerate(zip(type.shape, shapes.get(name, ()), strict=False)):
            found = _solved(size, number)
            if found is None:
                continue
            symbol, value = found
            here = f"axis {axis} of input {name!r}"
            if sizes.setdefault(symbol.name, value) != value:
                raise FeedError(
                    f"size {symbol.name!r}: {tellers[symbol.name]} says {sizes[symbol.name]}, "
                    f"{here} says {value}; feed arrays of the same size"
                )
            tellers.setdefault(symbol.name, here)
    for symbol in symbols:
        if symbol.name not in sizes:
            raise FeedError(
                f"size {symbol.name!r}: the shapes of the inputs do not determine it; give all "
                "sizes before, glow_nb.load(function, shapes={...})"
            )
        if not symbol.low <= sizes[symbol.name] <= symbol.high:
            raise FeedError(
                f"size {symbol.name!r}: {tellers[symbol.name]} says {sizes[symbol.name]}, which "
                f"is outside its range {symbol.low}..{symbol.high}"
            )
    for name, type in types.items():
        _check(f"input {name!r}", type, shapes.get(name, ()), sizes)
    return sizes


def require_guards(guards: Sequence[Guard], sizes: Mapping[str, int]) -> None:
    """Raise FeedError unless *guards* hold for *sizes*; those of sizes that are not known may."""
    for guard in guards:
        if all(one.name in sizes for one in guard.symbols) and not guard.holds(sizes):
            given = ", ".join(f"{one.name} = {sizes[one.name]}" for one in guard.symbols)
            raise FeedError(
                f"sizes {given}: the graph holds only where {guard}; feed arrays of such sizes"
                f"{nearest_fits(guards, sizes)}, or make the graph for these"
            )


def _check(
    subject: str, type: TensorType, shape: tuple[int, ...], sizes: Mapping[str, int]
) -> None:
    """Raise FeedError unless *shape* has the open *sizes* of *type*."""
    for size, number in zip(type.shape, shape, strict=False):
        if isinstance(size, Size) and at(size, sizes) != number:
            known = ", ".join(f"{one.name} = {sizes[one.name]}" for one in size.symbols)
            wanted = [at(each, sizes) for each in type.shape]
            raise FeedError(
                f"{subject}: its shape is {list(shape)}, but {type} is {wanted} for {known}; feed "
                "arrays of sizes that fit one another"
            )


def _solved(size: int, number: int) -> tuple[Symbol, int] | None:
    """Return the symbol and the number for which *size*, ``a*symbol + b``, is *number*."""
    if not isinstance(size, Size):
        return None
    factors = dict(size.terms)
    constant = factors.pop((), 0)
    if len(factors) > 1:
        return None
    ((atoms, factor),) = factors.items()
    if len(atoms) > 1 or not isinstance(atoms[0], Symbol) or (number - constant) % factor:
        return None
    return atoms[0], (number - constant) // factor
