"""For which numbers guards of one size hold: what a user reads instead of ``(n + 3)/4 == ...``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from glow_nb.base.guards import Guard
from glow_nb.base.symbol import Symbol

_MOST_TRIED = 4096
_MOST_SHOWN = 3


def described_fits(symbol: Symbol, guards: Iterable[Guard]) -> str:
    """Return for which of its first sizes the *guards* of *symbol* alone hold: ``64, 96, ...``."""
    own = _own(symbol, guards)
    runs = _runs(symbol, own)
    shown = [run for _, run in zip(range(_MOST_SHOWN), runs, strict=False)]
    texts = [f"{low}..{high}" if low < high else str(low) for low, high in shown]
    return ", ".join([*texts, "..."]) if own and shown else ""


def nearest_fits(guards: Sequence[Guard], sizes: Mapping[str, int]) -> str:
    """Return what is near where *guards* do not hold: ``, the nearest are n = 64 or n = 93``.

    Nothing is said of guards of several sizes, and of sizes that are not among these.
    """
    known = [guard for guard in guards if all(one.name in sizes for one in guard.symbols)]
    broken = {guard.symbols: None for guard in known if not guard.holds(sizes)}
    found = [_nearest(symbols[0], guards, sizes) for symbols in broken if len(symbols) == 1]
    texts = ", ".join(filter(None, found))
    return f", the nearest are {texts}" if texts else ""


def _nearest(symbol: Symbol, guards: Sequence[Guard], sizes: Mapping[str, int]) -> str:
    own, size = _own(symbol, guards), sizes[symbol.name]
    ways = (range(size, symbol.low - 1, -1), range(size, symbol.high + 1))
    found = (next((n for n in way[:_MOST_TRIED] if _hold(symbol, own, n)), None) for way in ways)
    return " or ".join(f"{symbol.name} = {n}" for n in found if n is not None)


def _own(symbol: Symbol, guards: Iterable[Guard]) -> list[Guard]:
    return [guard for guard in guards if guard.symbols == (symbol,)]


def _hold(symbol: Symbol, guards: Sequence[Guard], size: int) -> bool:
    return all(guard.holds({symbol.name: size}) for guard in guards)


def _runs(symbol: Symbol, guards: Sequence[Guard]) -> Iterator[tuple[int, int]]:
    """Yield the first sizes and the last ones of runs of sizes for which all *guards* hold."""
    begin: int | None = None
    for size in range(symbol.low, symbol.high + 1)[:_MOST_TRIED]:
        holds = _hold(symbol, guards, size)
        if holds and begin is None:
            begin = size
        elif not holds and begin is not None:
            yield begin, size - 1
            begin = None
