"""A request that goes to an idle device at once: no queue, and no future, since nobody else waits.

The thread that asks takes it there itself. If the device is lost meanwhile, that thread asks anew,
in the ordinary way.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass
from typing import TYPE_CHECKING

from glow_nb.counted import cut
from glow_nb.errors import GlowError
from glow_nb.memory_limit import out_of_memory
from glow_nb.runtime.hosting.dataflow import Copy, Dataflow, HostedPart
from glow_nb.runtime.hosting.hosted_device import HostedDevice
from glow_nb.runtime.hosting.tracer import TracedRequest, TracedRun
from glow_nb.types import Array

if TYPE_CHECKING:
    from glow_nb.runtime.hosting.served_network import ServedNetwork


DirectOutcome = dict[str, Array] | GlowError | CancelledError
"""How a direct run ends: with outputs by name, with an error, or interrupted from the keyboard."""


@dataclass(eq=False, slots=True)
class DirectRun:
    """A run of an undivided network on an idle device.

    Attributes:
        network: The network.
        flow: What of it runs, undivided.
        number: The number of the execution among those of the network.
        copy: Where it runs.
        began: When it was given to the device, by ``time.monotonic``.
        charged: The seconds of device time that its network was charged with.
    """

    network: ServedNetwork
    flow: Dataflow
    number: int
    copy: Copy
    began: float
    charged: float

    @property
    def part(self) -> HostedPart:
        """The part that runs."""
        return self.copy.part

    @property
    def device(self) -> HostedDevice:
        """Where it runs."""
        return self.copy.device

    def traced(self, began: float, ended: float) -> TracedRun:
        """Return what a trace keeps of it."""
        return TracedRun(self.flow, 0, self.number, self.device.name, began, ended)

    def traced_request(self, ended: float) -> TracedRequest:
        """Return what a trace keeps of the request, which does not wait."""
        name, rows = self.network.name, self.flow.rows
        return TracedRequest(name, rows, self.began, self.began, ended, self.number)

    def outcome(self, inputs: Sequence[Array]) -> dict[str, Array] | GlowError:
        """Run on *inputs*, in the order of the network; return what came of it."""
        copy, flow = self.copy, self.flow
        try:
            with copy.device.border:
                outputs = copy.checked(copy.device.device.run(copy.key, inputs))
            named = dict(zip(flow.outputs, outputs, strict=True))
            return cut(named, flow.counted) if flow.counted else named
        except GlowError as error:
            return error
        except MemoryError as error:
            return out_of_memory(f"network {self.network.name!r}", error)
