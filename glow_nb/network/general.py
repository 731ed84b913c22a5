"""The programs with open sizes of one network: each is right for all sizes where its guards hold.

Nearly always there is one. A comparison that a model, a pass or a kernel has answered by the sizes
of the example makes the program one of these sizes alone; for others one more is compiled.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from glow_nb.base.errors import FeedError, GlowError
from glow_nb.base.feeds import Feeds
from glow_nb.base.log import INFO, log
from glow_nb.base.size import Guard
from glow_nb.base.sizes_of_shapes import sizes_of_shapes
from glow_nb.base.types import Array, SymbolicType
from glow_nb.network.network import CompiledNetwork

if TYPE_CHECKING:
    from glow_nb.base.specialized import Specialized
    from glow_nb.codegen.loaded_program import DirectRun

Shapes = tuple[tuple[int, ...], ...]

CompileOpen = Callable[[Mapping[str, int]], CompiledNetwork]
"""Compiles a model with open sizes, planned for an example: hints by the names of symbols."""

MOST_PROGRAMS = 8
"""Programs with open sizes of one network. Beyond them sizes get programs of their own."""


class GeneralPrograms:
    """Programs with open sizes, compiled when sizes come for which none is right.

    Attributes:
        networks: The programs, the first one first.
        specialized: The sizes of the model that had to be made numbers, and why.
    """

    def __init__(
        self,
        compile_open: CompileOpen,
        networks: Iterable[CompiledNetwork] = (),
        specialized: Iterable[Specialized] = (),
    ) -> None:
        """Take *networks* that are there, with what is *specialized*, or compile the first one."""
        self._compile_open = compile_open
        self._lock = threading.Lock()
        self._hot: tuple[int, Callable[[Shapes], None]] | None = None
        self.networks: tuple[CompiledNetwork, ...] = tuple(networks) or (compile_open({}),)
        self.specialized: tuple[Specialized, ...] = tuple(specialized)

    @property
    def first(self) -> CompiledNetwork:
        """The program that was compiled first."""
        return self.networks[0]

    def check(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        """Raise FeedError unless *shapes* of inputs by name give sizes in their ranges."""
        border = self.first.border
        sizes_of_shapes(border.inputs, border.symbols, shapes)

    @property
    def direct(self) -> DirectRun | None:
        """The fast path of a run, which knows the sizes that came before."""
        return self.first.direct_run

    def notify_hot(self, after: int, notice: Callable[[Shapes], None]) -> None:
        """Let *notice* be called with the shapes of inputs that so many runs had."""
        self._hot = after, notice
        for one in self.networks:
            self._notify(one)

    def _notify(self, network: CompiledNetwork) -> None:
        if self._hot is not None and hasattr(network.executable, "notify_hot"):
            network.executable.notify_hot(*self._hot)

    def take_over(self, shapes: Shapes, network: CompiledNetwork, most: int) -> None:
        """Let *network* do the runs of inputs of *shapes*, in the order of the inputs.

        So do *most* networks at a time: those that came last.
        """
        for one in self.networks:
            if hasattr(one.executable, "take_over") and network.direct_run is not None:
                one.executable.take_over(shapes, network.direct_run, most)

    def network_for(self, feeds: Feeds) -> CompiledNetwork | None:
        """Return a network that is right for the sizes of *feeds*.

        None if none is, and there are too many, or one of the sizes is 0.
        """
        sizes = self.first.sizes_of(feeds)
        found = self._known(sizes)
        if found is not None or 0 in sizes.values():  # no kernel is planned for an empty example
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
            self._notify(made)
            self.networks = (*self.networks, made)
            return made

    def _known(self, sizes: Mapping[str, int]) -> CompiledNetwork | None:
        return next((one for one in self.networks if not broken_guards(one, sizes)), None)


def check_specialized(
    specialized: Iterable[Specialized],
    types: Mapping[str, SymbolicType],
    feeds: Mapping[str, Array],
) -> None:
    """Raise FeedError where *feeds* have another size than one that was made a number."""
    made = {each.name: each for each in specialized}
    for name, type in types.items() if made else ():
        for size, number in zip(type.shape or (), feeds[name].shape, strict=False):
            one = made.get(size) if isinstance(size, str) else None
            if one is not None and number != one.size:
                raise FeedError(
                    f"size {size!r}: input {name!r} says {number}, and the program has {one.size} "
                    f"as a number ({one.reason}); feed that, give another by hints=, or leave "
                    "sizes= out"
                )


def broken_guards(network: CompiledNetwork, sizes: Mapping[str, int]) -> list[Guard]:
    """Return the comparisons that *network* was compiled for, and that do not hold for *sizes*."""
    return [guard for guard in network.guards if not guard.holds(sizes)]
