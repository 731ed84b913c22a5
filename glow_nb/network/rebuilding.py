"""Networks that are made of the same model once more, to look at what a run computes.

They are made at first use, so that ordinary runs are not slower.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from glow_nb.system.state_store import StateStore

if TYPE_CHECKING:
    from glow_nb.backends.backend import Executable
    from glow_nb.base.model_node import ModelNode
    from glow_nb.hlir.graph import Function
    from glow_nb.llir.program import Program
    from glow_nb.network.variants import VariantCache

MOST_WATCHED = 4
"""Sets of names whose networks are kept: each holds the constants once more."""

N = TypeVar("N")


class WatchedNetwork(NamedTuple, Generic[N]):
    """A network that gives more values.

    Attributes:
        network: The network.
        outputs: The name of the output that has the value of each name.
    """

    network: N
    outputs: Mapping[str, str]


class Rebuilding(Generic[N]):
    """What makes networks and programs of one model again."""

    def __init__(
        self,
        watched: Callable[[Sequence[str], StateStore], WatchedNetwork[N]],
        names: Callable[[], list[str]],
        executable: Callable[[Program], Executable],
        model: Callable[[], Function | Program | None],
        nodes: Callable[[], list[ModelNode] | None],
        again: Callable[[], N] | None = None,
    ) -> None:
        """Make networks that give more values, on a state, by *watched*; *names* lists all.

        *executable* makes a program run that differs from the network's by some copies. *model*
        returns the model as it was before all passes, None where it is gone, and *nodes* its nodes
        as its file has them, None where there is no file. *again* compiles a network that was read
        from the disk, whose steps are known there by their names alone.
        """
        self.watched, self.names, self.executable = watched, names, executable
        self.model, self.nodes, self.again = model, nodes, again

    @cached_property
    def _kept(self) -> VariantCache[tuple[str, ...], WatchedNetwork[N]]:
        from glow_nb.network.variants import VariantCache

        return VariantCache(MOST_WATCHED)

    def watching(self, names: Sequence[str], state: StateStore) -> WatchedNetwork[N]:
        """Return the network that gives the values called *names*, which runs on *state*."""
        return self._kept.get(tuple(names), partial(self.watched, names, state))
