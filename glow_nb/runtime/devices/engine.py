"""The engine of a device: what loads and runs networks, different for each kind of device."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from glow_nb.base.errors import DeviceError, GlowError
from glow_nb.base.feeds import FeedCheck
from glow_nb.base.types import Array
from glow_nb.runtime.deployable import Deployable

Outcome = list[Array] | GlowError
"""How a run ends: with its outputs, or with the reason why there are none."""


class LoadStatus(Enum):
    """Return whether a network on a device is being loaded, can run, or is being evicted."""

    LOADING = "is being loaded"
    READY = "is ready"
    LEAVING = "is being evicted"


@dataclass(eq=False, slots=True)
class HeldNetwork:
    """A network on a device.

    Attributes:
        key: The name that users of the device give it.
        number: The engine's number of it, different for each network.
        network: The network that was added.
        feeds: Checks what its runs take.
        status: Whether it takes runs: only when it is ready.
        unfinished: Runs that it has been given and has not ended.
    """

    key: str
    number: int
    network: Deployable
    feeds: FeedCheck
    status: LoadStatus = LoadStatus.LOADING
    unfinished: int = 0


@dataclass(eq=False, slots=True)
class Run:
    """A run of a network on a device.

    Attributes:
        held: The network.
        inputs: Arrays that fit it, contiguous.
        future: Gets the result of the run; None if the waiting thread executes the run itself.
        slot: Its place among the runs that the engine has; -1 while it waits for one.
        death: Why it did not end, if the device was given up meanwhile.
    """

    held: HeldNetwork
    inputs: list[Array]
    future: Future[list[Array]] | None
    slot: int = -1
    death: DeviceError | None = None


Ended = Callable[[Run, Outcome], object]
"""Called by an engine, from any thread, when a run ends; not for runs that end with the engine."""

Died = Callable[["Engine", str], None]
"""Called by an engine about itself, from any thread, when it can do no more, with the reason."""


class Engine(Protocol):
    """Loads networks and runs them, from the start of a device until it dies or is closed.

    Its device sees to keys, memory, the order of runs, and that each is answered once.
    """

    @property
    def slots(self) -> int:
        """How many runs it may have at a time; one runs, the others are being sent."""
        ...

    def serve(self) -> None:
        """Begin to tell how runs end, and of its own end."""
        ...

    def load(self, held: HeldNetwork) -> None:
        """Load a network; raise CompileError, MemoryLimitError or DeviceError."""
        ...

    def unload(self, held: HeldNetwork) -> None:
        """Forget a network that has no runs."""
        ...

    def begin(self, run: Run) -> None:
        """Take a *run* to its slot, where no other is; return at once, and tell when it ends.

        An engine that has died does nothing.
        """
        ...

    def stop(self) -> None:
        """End; nothing runs."""
        ...

    def kill(self) -> None:
        """End at once, whatever runs; results are dropped."""
        ...
