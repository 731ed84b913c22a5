"""The executor (paper section 6): takes each request through the parts of its network.

A part is ready as soon as all that it reads is there; several parts of one request, and several
requests of one network, run at the same time. A value is kept until its last reader has
ended, so that a run that was lost with its device can be done again.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future

from glow_nb.base.counted import cut
from glow_nb.base.errors import DeviceError
from glow_nb.base.types import Array
from glow_nb.runtime.hosting.batching import joined, split
from glow_nb.runtime.hosting.dataflow import Dataflow
from glow_nb.runtime.hosting.hosted_device import Copy, HostedDevice, HostedPart
from glow_nb.runtime.hosting.request import Request
from glow_nb.runtime.hosting.tracer import TracedRun


class Execution:
    """One pass through a dataflow, for one request or for those of a batch.

    The host's lock guards all but :meth:`feeds` and :meth:`results`.

    Attributes:
        flow: The dataflow that is executed.
        requests: The requests that it answers.
        number: The number of earlier executions.
        began: When it left the queue, by ``time.monotonic``.
        open: The number of these without an answer yet.
        running: The runs that devices have been given and have not ended.
        unfinished: The number of parts that have not ended.
        priority: The highest of the requests'.
        deadline: The last of the requests'.
    """

    def __init__(
        self, flow: Dataflow, requests: Sequence[Request], number: int = 0, began: float = 0.0
    ) -> None:
        """Begin with the inputs of *requests*; *number* says how many came before."""
        self.flow, self.requests, self.number, self.began = flow, requests, number, began
        self.open = len(requests)
        self.priority = max(request.priority for request in requests)
        self.deadline = max(request.deadline for request in requests)
        self.running: dict[Run, None] = {}
        self.unfinished = len(flow.parts)
        self._uses, self._waits = dict(flow.uses), list(flow.waits)
        self._values: dict[str, Array] = {}
        if len(requests) == 1 and requests[0].rows == flow.rows:
            self._values.update(zip(flow.inputs, requests[0].arrays, strict=True))

    def feeds(self, part: HostedPart) -> list[Array]:
        """Return what a run of *part* takes; the arrays of several requests are joined.

        Raises:
            DeviceError: The run was lost with its device, and has been done again meanwhile.
        """
        return [self._value(name) for name in part.inputs]

    def _value(self, name: str) -> Array:
        value = self._values.get(name)
        if value is None:  # an input: others may join it at the same time, to the same array
            inputs = list(self.flow.inputs)
            if name not in inputs:
                raise DeviceError(f"network {self.flow.name!r}: another device has done this run")
            index = inputs.index(name)
            arrays = [request.arrays[index] for request in self.requests]
            value = self._values.setdefault(name, joined(arrays, self.flow.rows))
        return value

    def finish(self, index: int, outputs: Sequence[Array]) -> list[int]:
        """Take the *outputs* of the part *index*; return the parts that are ready by them."""
        part, ready = self.flow.parts[index], list[int]()
        self.unfinished -= 1
        for name in dict.fromkeys(part.inputs):
            self._uses[name] -= 1
            if not self._uses[name]:
                self._values.pop(name, None)
        for name, array in zip(part.outputs, outputs, strict=True):
            if self._uses.get(name):
                self._values[name] = array
            for reader in self.flow.readers[name]:
                self._waits[reader] -= 1
                if not self._waits[reader]:
                    ready.append(reader)
        return ready

    def results(self) -> list[dict[str, Array]]:
        """Return the answer of each request, when all parts have ended."""
        outputs = cut({name: self._output(name) for name in self.flow.outputs}, self.flow.counted)
        if len(self.requests) == 1 and self.requests[0].rows == self.flow.rows:
            return [outputs]
        return split(outputs, [request.rows for request in self.requests])

    def _output(self, name: str) -> Array:
        value = self._value(name)
        return value.copy() if name in self.flow.inputs else value


class Run:
    """One part of an execution, which is ready, or which a device has been given.

    Attributes:
        execution: The execution.
        index: The index of the part.
        losses: The number of devices that were lost with it.
        avoided: The names of devices that had no memory for it.
        copy: Where it runs; None while it is ready.
        future: The device's answer, from when it has the run until that ends.
        began: When it was given to the device.
        charged: The seconds of device time that its network was charged with.
        launcher: The thread that is giving it to the device; None when that is done.
        ended_at_once: Whether it ended before that.
    """

    __slots__ = (
        "avoided",
        "began",
        "charged",
        "copy",
        "ended_at_once",
        "execution",
        "future",
        "index",
        "launcher",
        "losses",
    )

    def __init__(self, execution: Execution, index: int) -> None:
        """Be ready."""
        self.execution, self.index = execution, index
        self.losses, self.avoided = 0, frozenset[str]()
        self.copy: Copy | None = None
        self.future: Future[list[Array]] | None = None
        self.began = self.charged = 0.0
        self.launcher: int | None = None
        self.ended_at_once = False

    @property
    def part(self) -> HostedPart:
        """The part that is to run."""
        return self.execution.flow.parts[self.index]

    @property
    def device(self) -> HostedDevice:
        """Where it runs."""
        assert self.copy is not None  # it has been given to one
        return self.copy.device

    @property
    def has_hope(self) -> bool:
        """Return whether there is a device that may do it, now or when it has come back."""
        devices = (copy.device for copy in self.part.copies)
        return any(not d.lost and d.name not in self.avoided for d in devices)

    def cancel(self) -> bool:
        """Take it back from its device; return False if that has begun with it."""
        future = self.future  # another thread may end the run, and forget it
        return future is not None and future.cancel()

    def traced(self, began: float, ended: float) -> TracedRun:
        """Return what a trace keeps of it."""
        execution = self.execution
        return TracedRun(
            execution.flow, self.index, execution.number, self.device.name, began, ended
        )

    def again(self) -> Run:
        """Return the same run, ready once more: what comes of this one does not count."""
        run = Run(self.execution, self.index)
        run.losses, run.avoided = self.losses, self.avoided
        return run

    @property
    def rank(self) -> tuple[int, int, int]:
        """The order of the ready runs of a network: old requests end first."""
        return (-self.execution.priority, self.execution.number, -self.index)


def run_once(flow: Dataflow, inputs: Sequence[Array]) -> list[Array]:
    """Run *flow* on its first copies, part by part, and return its outputs in order."""
    request = Request(flow.name, inputs, lambda _: False, rows=flow.rows)
    execution = Execution(flow, [request])
    for index, part in enumerate(flow.parts):
        copy = part.copies[0]
        with copy.device.border:
            outputs = copy.checked(copy.device.device.run(copy.key, execution.feeds(part)))
        execution.finish(index, outputs)
    (results,) = execution.results()
    return list(results.values())
