"""The networks on a device: by keys, within its memory, and which of them take runs."""

from __future__ import annotations

import itertools

from glow_nb.base.errors import MemoryLimitError, OptionError
from glow_nb.base.open_feeds import feed_check
from glow_nb.base.schema import closest
from glow_nb.runtime.deployable import Deployable
from glow_nb.runtime.devices.engine import HeldNetwork, LoadStatus


class HeldNetworks:
    """The networks on a device, or being loaded; the device's lock guards them.

    A network takes ``Deployable.memory_bytes``: constants and one run.
    """

    def __init__(self, device: str, memory_bytes: int) -> None:
        """Hold nothing yet; errors are about *device*."""
        self._device, self._memory_bytes = device, memory_bytes
        self._held: dict[str, HeldNetwork] = {}
        self._numbers = itertools.count()

    @property
    def used_bytes(self) -> int:
        """The memory of the networks."""
        return sum(held.network.memory_bytes for held in self._held.values())

    @property
    def free_bytes(self) -> int:
        """The memory that is free for networks."""
        return self._memory_bytes - self.used_bytes

    def claim(self, key: str, network: Deployable) -> HeldNetwork:
        """Keep the key and the memory of *network*, which is to be loaded.

        Raises:
            OptionError: There is one of this key.
            MemoryLimitError: It needs more memory than is free.
        """
        if there := self._held.get(key):
            raise OptionError(
                f"{self._device}: network {key!r} is there already, it {there.status.value}; evict "
                "it, or add this one by another key"
            )
        if network.memory_bytes > self.free_bytes:
            raise MemoryLimitError(
                f"{self._device}: network {key!r} needs {network.memory_bytes} bytes "
                f"({network.constant_bytes} of constants, {network.run_bytes} for a run), "
                f"{self.free_bytes} of {self._memory_bytes} are free; evict another network, or "
                "use a device with more memory"
            )
        check = feed_check(network.inputs, network.guards)
        held = HeldNetwork(key, next(self._numbers), network, check)
        self._held[key] = held
        return held

    def ready(self, key: str) -> HeldNetwork:
        """Return the network *key*; raise OptionError unless it takes runs."""
        held = self._held.get(key)
        if held is not None and held.status is LoadStatus.READY:
            return held
        if held is not None:
            raise OptionError(f"{self._device}: network {key!r} {held.status.value}; wait for that")
        raise OptionError(
            f"{self._device}: it has no network {key!r}{closest(key, self._held)}; it holds "
            f"{list(self._held)!s:.200}"
        )

    def remove(self, held: HeldNetwork) -> None:
        """Forget a network, unless the device has been emptied and filled anew meanwhile."""
        if self._held.get(held.key) is held:
            del self._held[held.key]

    def clear(self) -> None:
        """Hold nothing."""
        self._held.clear()
