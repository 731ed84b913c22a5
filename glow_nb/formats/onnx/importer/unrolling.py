"""The number of unrolled steps of loops, those of loops inside of loops counted each time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import inf, prod

from glow_nb.base.errors import UnsupportedError

MAX_STEPS = 1024
"""More would make graphs that are too large; such loops are reported as unsupported."""


class Unrolling:
    """Counts the steps of an outermost loop and of all loops inside of it."""

    def __init__(self) -> None:
        """Begin outside of any loop."""
        self._around: tuple[float, ...] = ()
        self._largest: tuple[float, ...] = ()
        self._steps = 0

    @contextmanager
    def loop(self, length: int | None) -> Iterator[Callable[[], None]]:
        """Let the body of the statement unroll a loop of *length*; None if that is not known.

        Yields what counts a step. That raises UnsupportedError if there are too many.
        """
        outside = self._around
        self._around = (*outside, inf if length is None else length)
        self._largest = max(
            self._largest, self._around, key=lambda lengths: (prod(lengths), lengths)
        )
        try:
            yield self._count
        finally:
            self._around = outside
            if not outside:
                self._largest, self._steps = (), 0

    def _count(self) -> None:
        self._steps += 1
        if self._steps > MAX_STEPS:
            raise UnsupportedError(
                f"{_described(self._largest)}; loops of at most {MAX_STEPS} are unrolled"
            )


def _described(lengths: tuple[float, ...]) -> str:
    """Say how many steps loops of *lengths* make, each inside of the one before."""
    if inf in lengths:
        return f"more than {MAX_STEPS} steps"
    if len(lengths) == 1:
        return f"{lengths[0]} steps"
    product = " x ".join(map(str, lengths))
    return f"{product} steps of loops inside of each other, {prod(lengths)} in all"
