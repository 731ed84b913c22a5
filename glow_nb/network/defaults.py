"""Inputs that need not be fed: the model has numbers for them, which a feed may replace.

A network is compiled with these numbers as constants, so that they are folded and packed. For those
who feed such an input, there is another network, in which it is an input as any other.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from glow_nb.base.types import SymbolicType

N = TypeVar("N")


class Defaults(Generic[N]):
    """The inputs with a default that a network of fixed sizes leaves at it.

    Attributes:
        types: Type of each by name, in order.
    """

    def __init__(self, types: Mapping[str, SymbolicType], make: Callable[[], N]) -> None:
        """Hold the *types*, and what makes the network that takes feeds for these inputs."""
        self.types, self._make = types, make
        self._network: N | None = None
        self._lock = threading.Lock()

    def are_in(self, names: object) -> bool:
        """Return whether *names*, what is fed or given by name, has one of these inputs."""
        return isinstance(names, Mapping) and not names.keys().isdisjoint(self.types)

    def network(self) -> N:
        """Return the network that takes feeds for these inputs, made at first use."""
        with self._lock:
            if self._network is None:
                self._network = self._make()
            return self._network
