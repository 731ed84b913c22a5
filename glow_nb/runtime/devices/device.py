"""The methods of every device: it holds networks and runs them (device manager, section 6)."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Protocol

from glow_nb.base.types import Array
from glow_nb.runtime.deployable import Deployable
from glow_nb.runtime.devices.device_description import DeviceDescription


@dataclass(frozen=True)
class Health:
    """The health of a device.

    Attributes:
        alive: Whether it answers; one that does not runs nothing and holds nothing.
        reason: Why it does not; empty if it does.
        running: Runs that it has been given and has not ended.
        memory_used_bytes: Memory of the networks on it.
        restarts: The number of restarts.
        away_since: On a host, when it was lost, by ``time.time``; None while it is there.
        next_attempt: And when the host tries next to bring it back; the time of the last attempt
            while that runs.
    """

    alive: bool
    reason: str = ""
    running: int = 0
    memory_used_bytes: int = 0
    restarts: int = 0
    away_since: float | None = None
    next_attempt: float | None = None


class Device(Protocol):
    """Holds networks by a key, and runs them, any number at a time, in the order of submission.

    All methods may be called from any thread, but a callback of a future must not wait for its
    device: what would wake it may be this very thread. A device that has died raises
    :class:`~glow_nb.base.errors.DeviceError` from each method but ``health``, ``kill``, ``restart``
    and ``close``.
    """

    @property
    def description(self) -> DeviceDescription:
        """The abilities and the memory of the device."""
        ...

    @property
    def memory_free_bytes(self) -> int:
        """The memory that is free for networks."""
        ...

    def add(self, key: str, network: Deployable) -> None:
        """Load *network* and call it *key*.

        Raises:
            OptionError: There is one of this key.
            MemoryLimitError: It needs more memory than is free; both numbers are said.
            CompileError: It is for another processor, or damaged.
            DeviceError: The device is dead, or dies.
        """
        ...

    def evict(self, key: str) -> None:
        """Forget the network *key*, when its runs have ended; an unknown one is an OptionError."""
        ...

    def submit(self, key: str, inputs: Sequence[Array]) -> Future[list[Array]]:
        """Begin a run of *key* on *inputs*, in its order; return at once.

        The future ends with new arrays in the order of the outputs, or with a FeedError, or with a
        DeviceError if the device dies before the run ends. Cancelling works until the run begins.
        """
        ...

    def run(self, key: str, inputs: Sequence[Array]) -> list[Array]:
        """Do what ``submit(key, inputs).result()`` does.

        A device in this process that has nothing else to do runs it on the calling thread, which
        saves two changes of threads.
        """
        ...

    def health(self) -> Health:
        """Return how it is, at once."""
        ...

    def kill(self, reason: str) -> None:
        """Give it up: what runs ends with a DeviceError that says *reason*, and it holds nothing.

        For a device that hangs; a device in this process only forgets what it was doing.
        """
        ...

    def restart(self) -> None:
        """Make it alive and empty again, or raise DeviceError if it cannot be."""
        ...

    def close(self) -> None:
        """End it for good, when its runs have ended; a second call does nothing."""
        ...
