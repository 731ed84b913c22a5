"""A network by its name on a host: its queue, its executions, and what may begin next."""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Sequence
from copy import deepcopy

from glow_nb.base.errors import DeviceError, GlowError, RefusedError
from glow_nb.base.open_feeds import feed_check
from glow_nb.runtime.hosting.batching import FixedFeeds, OpenFeeds, RowFeeds, open_types
from glow_nb.runtime.hosting.dataflow import Dataflow
from glow_nb.runtime.hosting.executor import Execution, Run
from glow_nb.runtime.hosting.hosted_device import DEPTH, HostedDevice
from glow_nb.runtime.hosting.request import Request
from glow_nb.runtime.hosting.request_queue import RequestQueue
from glow_nb.runtime.hosting.statistics import NetworkCounters, NetworkStatistics


class ServedNetwork:
    """A network by its name; the host's lock guards it.

    Attributes:
        name: Its name.
        flows: The network for each batch size, the smallest first.
        max_delay: Seconds that a batch waits for more requests.
        priority: The number that is added to the priority of its requests.
        has_state: Whether its runs change it: then they are done one by one, and never again.
        queue: The requests that wait.
        active: The executions that have begun and have not ended.
        seconds: The device time that it has had, as fairness counts it.
        leaving: Why no request is taken any more; empty while they are.
        lost: Why none of its requests can be answered; empty while they can.
        feeds: Checks what requests are fed.
        counters: The counters of its requests.
    """

    def __init__(
        self,
        name: str,
        flows: Sequence[Dataflow],
        *,
        max_queued: int,
        max_delay: float = 0.0,
        priority: int = 0,
    ) -> None:
        """Have *flows*; a batch waits at most *max_delay* seconds for more requests."""
        self.name, self.flows, self.priority = name, tuple(flows), priority
        self.max_delay = max_delay
        self.queue = RequestQueue(name, max_queued)
        self.active: dict[Execution, None] = {}
        self.seconds = 0.0
        self.leaving = self.lost = ""
        self.feeds = _feeds_of(self.flows[-1])
        self.counters = NetworkCounters()
        self.has_state = any(s.deployable.program.state for flow in flows for s in flow.parts)
        self._sizes = [flow.rows for flow in self.flows]
        self._ready: list[Run] = []
        self._begun = 0

    @property
    def max_rows(self) -> int:
        """The largest batch."""
        return self._sizes[-1]

    @property
    def is_idle(self) -> bool:
        """Return whether nothing waits or runs."""
        return not self.queue and not self.under_way

    @property
    def under_way(self) -> int:
        """The number of executions that have begun and have not ended."""
        return len(self.active)

    @property
    def is_somewhere(self) -> bool:
        """Return whether each part is on a device that is up, or may come back."""
        parts = [part for flow in self.flows for part in flow.parts]
        return all(any(not c.device.lost for c in part.copies) for part in parts)

    @property
    def hopeless(self) -> list[Execution]:
        """The executions that wait for a device, and none that may do it is left."""
        return [run.execution for run in self._ready if not run.has_hope]

    def is_on(self, device: HostedDevice) -> bool:
        """Return whether a part is on *device*."""
        return any(c.device is device for flow in self.flows for s in flow.parts for c in s.copies)

    @property
    def most_active(self) -> int:
        """The largest number of concurrent executions: enough for all devices, but few values."""
        if self.has_state:
            return 1
        return DEPTH * max(sum(len(s.copies) for s in flow.parts) for flow in self.flows)

    def statistics(self) -> NetworkStatistics:
        """Return what was counted, and what waits and runs now."""
        running = sum(execution.open for execution in self.active)
        return NetworkStatistics(deepcopy(self.counters), len(self.queue), running)

    def accept(self, request: Request) -> None:
        """Let *request* wait.

        Raises:
            RefusedError: The network is going away, or too many requests wait.
            DeviceError: Its devices are lost.
        """
        try:
            if (refusal := self.refusal) is not None:
                raise refusal
            self.queue.push(request)
        except GlowError:
            self.counters.refused += 1
            raise

    @property
    def refusal(self) -> GlowError | None:
        """Why no request is taken; None if they are."""
        if self.lost:
            return DeviceError(self.lost)
        return RefusedError(self.leaving) if self.leaving else None

    @property
    def has_work(self) -> bool:
        """Return whether a request, or a part of one, may begin when a device is free."""
        return bool(self._ready) or len(self.queue) > 0

    def make_ready(self, run: Run) -> None:
        """Let *run* begin when a device is free."""
        insort(self._ready, run, key=lambda run: run.rank)

    def drop(self, execution: Execution) -> None:
        """Let no further run of *execution* begin."""
        self._ready = [run for run in self._ready if run.execution is not execution]

    def next_priority(self, now: float) -> float | None:
        """Return the priority of what may begin now; None if nothing may."""
        for run in self._ready:
            if run.part.free_copy(run.avoided):
                return self.priority + run.execution.priority
        head = self.queue.head()
        if head is None or now < self.held_until or not self._has_room():
            return None
        return self.priority + head.priority

    @property
    def held_until(self) -> float:
        """Until when the next batch waits for more requests; infinite if none waits at all."""
        head = self.queue.head()
        if head is None:
            return math.inf
        if not self.max_delay or self.queue.rows >= self.max_rows:
            return -math.inf
        return head.submitted + self.max_delay

    def _has_room(self) -> bool:
        """Return whether a device is free for the first part of a new execution."""
        if self.under_way >= self.most_active:
            return False
        flow = self._flow_for(self.queue.rows)
        return any(flow.parts[index].free_copy() for index in flow.first)

    def _flow_for(self, rows: int) -> Dataflow:
        """Return the smallest batch that holds *rows*, or the largest that there is."""
        return self.flows[min(bisect_left(self._sizes, rows), len(self.flows) - 1)]

    def take_next(self, now: float) -> Run | None:
        """Return the run that begins now; None if no free device has the part that is next."""
        run = self._first_ready()
        if run is None:
            self._begin_batch(now)
            run = self._first_ready()
        if run is not None:
            self._ready.remove(run)
        return run

    def _first_ready(self) -> Run | None:
        return next((r for r in self._ready if r.part.free_copy(r.avoided)), None)

    def _begin_batch(self, now: float) -> None:
        requests = self.queue.take(self.max_rows)
        flow = self._flow_for(sum(request.rows for request in requests))
        execution = self.execute(flow, requests, now)
        for index in flow.first:
            self.make_ready(Run(execution, index))

    def execute(self, flow: Dataflow, requests: Sequence[Request], now: float) -> Execution:
        """Begin to execute *flow* for *requests*."""
        execution = Execution(flow, requests, self.number_of_next(flow), now)
        for request in requests:
            request.execution = execution
            self.counters.waiting.add(now - request.submitted)
        self.active[execution] = None
        return execution

    def number_of_next(self, flow: Dataflow) -> int:
        """Count one more execution, of *flow*, and return its number."""
        self._begun += 1
        self.counters.batches[flow.rows] += 1
        return self._begun


def _feeds_of(largest: Dataflow) -> FixedFeeds | RowFeeds | OpenFeeds:
    """Return the check of what is fed to a network whose *largest* batch is given."""
    if largest.is_open:
        (part,) = largest.parts
        return OpenFeeds(feed_check(part.deployable.inputs, part.deployable.guards), largest.rows)
    if largest.rows > 1:
        return RowFeeds(open_types(largest.inputs), largest.rows)
    return FixedFeeds(largest.inputs)
