"""A request that goes to an idle device at once: no queue, and no future, since nobody else waits.

The thread that asks takes it there itself. If it cannot end so, as the device is lost or has no
memory for it, an ordinary run of a request takes its place, for whose answer the thread waits.
"""

from __future__ import annotations

from concurrent.futures import CancelledError
from dataclasses import dataclass, field

from glow_nb.base.counted import cut
from glow_nb.base.errors import GlowError
from glow_nb.base.memory_limit import out_of_memory
from glow_nb.base.types import Array
from glow_nb.runtime.hosting.dataflow import Dataflow
from glow_nb.runtime.hosting.executor import Execution, Run
from glow_nb.runtime.hosting.hosted_device import Copy, HostedDevice, HostedPart
from glow_nb.runtime.hosting.request import Asked
from glow_nb.runtime.hosting.served_network import ServedNetwork
from glow_nb.runtime.hosting.tracer import TracedRequest, TracedRun

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
        asked: What was asked for.
        ordinary: The run that has taken its place; None as long as there is none.
    """

    network: ServedNetwork
    flow: Dataflow
    number: int
    copy: Copy
    began: float
    charged: float
    asked: Asked
    ordinary: Run | None = field(default=None, init=False)

    @property
    def part(self) -> HostedPart:
        """The part that runs."""
        return self.copy.part

    @property
    def device(self) -> HostedDevice:
        """Where it runs."""
        return self.copy.device

    def become_ordinary(self) -> Run:
        """Let the run of a request take its place, and return it."""
        request = self.asked.request(self.network.name)
        request.submitted = self.began
        request.execution = Execution(self.flow, [request], self.number, self.began)
        self.ordinary = run = Run(request.execution, 0)
        run.copy, run.began, run.charged = self.copy, self.began, self.charged
        return run

    def traced(self, began: float, ended: float) -> TracedRun:
        """Return what a trace keeps of it."""
        return TracedRun(self.flow, 0, self.number, self.device.name, began, ended)

    def traced_request(self, ended: float) -> TracedRequest:
        """Return what a trace keeps of the request, which does not wait."""
        name, rows = self.network.name, self.flow.rows
        return TracedRequest(name, rows, self.began, self.began, ended, self.number)

    def outcome(self) -> dict[str, Array] | GlowError:
        """Run, and return what came of it."""
        copy, flow = self.copy, self.flow
        try:
            with copy.device.border:
                outputs = copy.checked(copy.device.device.run(copy.key, self.asked.arrays))
            named = dict(zip(flow.outputs, outputs, strict=True))
            return cut(named, flow.counted) if flow.counted else named
        except GlowError as error:
            return error
        except MemoryError as error:
            return out_of_memory(f"network {self.network.name!r}", error)
