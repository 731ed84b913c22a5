"""The warning for a user whose inputs have many sizes: how long compilation takes, and what to
do.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Hashable

from glow_nb.base.errors import GlowWarning

FIRST_TOLD = 4
"""The set of sizes with which a user hears of it: that many come of batches, or of odd ends."""

_MOST_REMEMBERED = 4096
"""Sets of sizes whose compilation is remembered after they were dropped."""

_REMEDY = (
    "one program runs for all sizes unless sizes='each' is given or net.specialized says what "
    "needs numbers; else pad inputs to a few sizes, or compile those that you expect ahead, by "
    "net.prepare(shapes); docs/howto/open_sizes.md says more"
)


class SizeAdvice:
    """Counts the sets of sizes that runs had to wait for, and warns once of each of two things.

    These are a fourth set of sizes, and a set that was dropped and is compiled again.
    """

    def __init__(self, most_kept: int) -> None:
        """Advise on a network that keeps at most *most_kept* sets of sizes."""
        self._most_kept, self._count = most_kept, 0
        self._compiled: dict[int, None] = {}  # hashes, the oldest first
        self._told: set[str] = set()
        self._lock = threading.Lock()

    def compiled(self, key: Hashable) -> None:
        """Note that the sizes *key* were compiled."""
        with self._lock:
            self._compiled[hash(key)] = None
            if len(self._compiled) > _MOST_REMEMBERED:
                del self._compiled[next(iter(self._compiled))]

    def wait_for(self, key: Hashable, describe: Callable[[], str]) -> None:
        """Note that a run waits until the sizes *key* are compiled, *describe* says which they are.

        The warning points at the caller of the network's method, two calls further out.
        """
        message = self._message(key, describe)
        if message is not None:
            warnings.warn(message, GlowWarning, stacklevel=5)

    def _message(self, key: Hashable, describe: Callable[[], str]) -> str | None:
        with self._lock:
            if hash(key) in self._compiled:
                if not self._is_new("again"):
                    return None
                return (
                    f"sizes {describe()}: they are compiled again, since a network keeps the "
                    f"{self._most_kept} sets of sizes that were used last; give compile a larger "
                    f"max_variants, or {_REMEDY}"
                )
            self._count += 1
            if self._count < FIRST_TOLD or not self._is_new("many"):
                return None
            return (
                f"sizes {describe()}: the set number {self._count} that this network is compiled "
                f"for, which takes seconds for each set when it first comes; {_REMEDY}"
            )

    def _is_new(self, what: str) -> bool:
        """Return whether *what* was not reported yet, and remember that it is reported now."""
        was_told = what in self._told
        self._told.add(what)
        return not was_told
