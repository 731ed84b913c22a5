"""The programs with open sizes of one network: each is right for all sizes where its guards hold.

Nearly always there is one. A comparison that a model, a pass or a kernel has answered by the sizes
of the example makes the program one of these sizes alone; for others one more is compiled.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from glow_nb.base.errors import GlowError
from glow_nb.base.feeds import Feeds
from glow_nb.base.log import INFO, log
from glow_nb.base.size import Guard
from glow_nb.network.network import CompiledNetwork

CompileOpen = Callable[[Mapping[str, int]], CompiledNetwork]
"""Compiles a model with open sizes, planned for an example: hints by the names of symbols."""

MOST_PROGRAMS = 8
"""Programs with open sizes of one network. Beyond them sizes get programs of their own."""


class GeneralPrograms:
    """Programs with open sizes, compiled when sizes come for which none is right."""

    def __init__(self, compile_open: CompileOpen) -> None:
        """Compile the first one."""
        self._compile_open = compile_open
        self._lock = threading.Lock()
        self.networks: tuple[CompiledNetwork, ...] = (compile_open({}),)

    @property
    def first(self) -> CompiledNetwork:
        """The program that was compiled first."""
        return self.networks[0]

    def network_for(self, feeds: Feeds) -> CompiledNetwork | None:
        """Return a network that is right for the sizes of *feeds*; None if there are too many."""
        sizes = self.first.sizes_of(feeds)
        found = self._known(sizes)
        if found is not None:
            return found
        with self._lock:
            found = self._known(sizes)
            if found is not None or len(self.networks) >= MOST_PROGRAMS:
                return found
            broken = ", ".join(map(str, broken_guards(self.first, sizes)))
            log(INFO, "network %r: sizes without %s get one more program", self.first.name, broken)
            made = self._compile_open(sizes)
            if broken_guards(made, sizes):
                raise GlowError(
                    f"network {made.name!r}: it was compiled for {dict(sizes)} and does not hold "
                    "for them; this is a defect of the compiler"
                )
            self.networks = (*self.networks, made)
            return made

    def _known(self, sizes: Mapping[str, int]) -> CompiledNetwork | None:
        return next((one for one in self.networks if not broken_guards(one, sizes)), None)


def broken_guards(network: CompiledNetwork, sizes: Mapping[str, int]) -> list[Guard]:
    """Return the comparisons that *network* was compiled for, and that do not hold for *sizes*."""
    return [guard for guard in network.guards if not guard.holds(sizes)]
