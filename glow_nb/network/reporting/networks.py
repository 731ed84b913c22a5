"""What a report asks of a network, whatever kind it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from glow_nb.base.feeds import Feeds
from glow_nb.base.types import Array, SymbolicType, TensorType

if TYPE_CHECKING:
    from glow_nb.network.profile import Profile
    from glow_nb.system.state_store import StateStore


class ReportedNetwork(Protocol):
    """A network as :func:`glow_nb.compile` returns it."""

    @property
    def state(self) -> StateStore:
        """Its states."""
        ...

    @property
    def inputs(self) -> Mapping[str, TensorType | SymbolicType]:
        """Name and type of each input."""
        ...

    @property
    def outputs(self) -> Mapping[str, TensorType | SymbolicType]:
        """Name and type of each output."""
        ...

    @property
    def threads(self) -> int:
        """Cores that share a run."""
        ...

    def run(self, inputs: Feeds) -> dict[str, Array]:
        """Run it."""
        ...

    def profile(self, inputs: Feeds, *, runs: int = 20, limits: bool = True) -> Profile:
        """Return the times of its kernels."""
        ...
