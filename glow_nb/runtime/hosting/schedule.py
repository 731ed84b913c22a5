"""The schedule of a host: what runs next, and on which device, without threads, locks or clocks.

Each method takes an event, changes the state, and adds to the :class:`Effects`
what is to be done: runs given to devices, requests answered.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import CancelledError

from glow_nb.base.errors import DeadlineError, DeviceError, GlowError, MemoryLimitError
from glow_nb.base.types import Array
from glow_nb.runtime.hosting.effects import Effects, Outcome
from glow_nb.runtime.hosting.executor import Execution, Run
from glow_nb.runtime.hosting.hosted_device import Copy, HostedDevice
from glow_nb.runtime.hosting.request import Request
from glow_nb.runtime.hosting.served_network import ServedNetwork
from glow_nb.runtime.hosting.tracer import Tracer

MOST_LOSSES = 3
"""How many devices may be lost with one run: it may be what kills them."""


class Schedule:
    """Gives runs to devices: by priority, and among networks by the device time they have had.

    Attributes:
        networks: The networks by name.
        devices: All devices.
    """

    def __init__(self, devices: Sequence[HostedDevice], tracer: Tracer | None = None) -> None:
        """Have nothing to do on *devices*."""
        self.networks: dict[str, ServedNetwork] = {}
        self.devices, self._tracer = devices, tracer
        self._timed: set[Request] = set()  # open, with a deadline
        self._seconds = 0.0  # the device time of the network that had a run last
        self._given = 0

    def accept(self, network: ServedNetwork, request: Request, effects: Effects) -> None:
        """Let *request* wait for *network*; raise as :meth:`ServedNetwork.accept`."""
        network.accept(request)
        if network.seconds < self._seconds and len(network.queue) == 1 and not network.under_way:
            network.seconds = self._seconds  # time without requests is not saved up
        if request.deadline != math.inf:
            self._timed.add(request)
            effects.wake = request.deadline

    def fill(self, effects: Effects, now: float) -> None:
        """Give free devices what they can do, until nothing more can begin."""
        waiting = [network for network in self.networks.values() if network.has_work]
        while waiting:
            best, best_rank = None, (math.inf, math.inf)
            for network in waiting:
                priority = network.next_priority(now) if network.has_work else None
                if priority is not None and (-priority, network.seconds) < best_rank:
                    best, best_rank = network, (-priority, network.seconds)
            if best is None:
                break
            run = best.take_next(now)
            copy = run.part.free_copy(run.avoided) if run is not None else None
            if run is not None and copy is not None:
                self._give(run, copy, best, now)
                effects.runs.append(run)
        for network in waiting:
            if network.max_delay and (until := network.held_until) > now:
                effects.wake = min(effects.wake, until)

    def _give(self, run: Run, copy: Copy, network: ServedNetwork, now: float) -> None:
        copy.device.running[run] = run.execution.running[run] = None
        run.copy, run.began, run.charged = copy, now, copy.part.seconds
        self._given += 1
        copy.device.used = self._given
        network.seconds += run.charged
        self._seconds = network.seconds

    def end(self, run: Run, outcome: Outcome, effects: Effects, now: float) -> None:
        """Take the *outcome* of *run*, unless it was lost with its device before."""
        execution, device = run.execution, run.device
        if run not in device.running:
            return
        if isinstance(outcome, DeviceError):  # that of the run is lost with the others
            self.lose(device, outcome, effects)
            return
        del device.running[run], execution.running[run]
        network = self._network_of(execution)
        if isinstance(outcome, list):
            self._charge(run, network, now)
        device.freed = now
        if not execution.open:
            self._end_execution(network, execution)
        elif isinstance(outcome, list):
            self._advance(run, network, outcome, effects, now)
        else:
            self._fail(run, network, outcome, effects)

    def _charge(self, run: Run, network: ServedNetwork, now: float) -> None:
        """Let *network* pay for the time that *run* took, and expect as much of the next one."""
        began = max(run.began, run.device.freed)
        network.seconds += (now - began) - run.charged
        run.part.seconds += (now - began - run.part.seconds) / 8
        if self._tracer is not None:
            self._tracer.ran(run.traced(began, now))

    def _advance(
        self, run: Run, network: ServedNetwork, outputs: list[Array], effects: Effects, now: float
    ) -> None:
        execution = run.execution
        for index in execution.finish(run.index, outputs):
            network.make_ready(Run(execution, index))
        if execution.unfinished:
            return
        answered = [request for request in execution.requests if request.is_open]
        for request in answered:
            self._close(request, effects)
            network.counters.latency.add(now - request.submitted)
        network.counters.answered += len(answered)
        effects.finished.append((execution, answered))

    def withdraw(self, request: Request, effects: Effects) -> bool:
        """Close *request*, which its user has cancelled; return False if it was closed before."""
        if not request.is_open:
            return False
        self._close(request, effects)
        self.networks[request.network].counters.cancelled += 1
        return True

    def _close(self, request: Request, effects: Effects) -> None:
        """Let *request* be answered by the caller; drop executions without requests."""
        network, execution = self.networks[request.network], request.execution
        request.is_open = False
        self._timed.discard(request)
        if self._tracer is not None:
            self._tracer.closed(request.traced())
        if not isinstance(execution, Execution):
            network.queue.forget(request)
            return
        request.execution = None  # a cycle would keep the arrays until garbage is looked for
        execution.open -= 1
        if not execution.open:
            network.drop(execution)
            effects.dropped.extend(execution.running)
            self._end_execution(network, execution)

    def _end_execution(self, network: ServedNetwork, execution: Execution) -> None:
        """Forget *execution*, which has no request, when no device executes it."""
        if not execution.running:
            network.active.pop(execution, None)

    def _network_of(self, execution: Execution) -> ServedNetwork:
        return self.networks[execution.requests[0].network]

    # Failures.

    def _fail(
        self, run: Run, network: ServedNetwork, error: GlowError | CancelledError, effects: Effects
    ) -> None:
        if isinstance(error, MemoryLimitError):
            run.avoided |= {run.device.name}
            self._redo(run, MemoryLimitError(f"{run.device.name}: {error}"), effects)
            return
        if isinstance(error, CancelledError):
            error = DeviceError(f"{run.device.name}: it has dropped a run that was waited for")
        self._fail_execution(network, run.execution, error, effects)

    def lose(self, device: HostedDevice, error: DeviceError, effects: Effects) -> None:
        """Take all runs from *device*, which is dead, and do them elsewhere."""
        if not device.is_up:
            return
        device.is_up = False
        device.losses += 1
        effects.lost.append(device)
        lost = _runs_on(device)
        device.running.clear()
        for run in lost:
            del run.execution.running[run]
            run.losses += 1
            self._redo(run, error, effects)
        for network in self.networks.values():
            if network.has_state and not network.lost and network.is_on(device):
                self._lose_network(
                    network,
                    f"{error}; the state of network {network.name!r} was lost with it: remove the "
                    "network and add it again",
                    effects,
                )

    def _redo(self, run: Run, error: GlowError, effects: Effects) -> None:
        """Do *run* again where it can be done; otherwise *error* is the answer."""
        execution = run.execution
        network = self._network_of(execution)
        if not execution.open:
            self._end_execution(network, execution)
        elif network.has_state or run.losses >= MOST_LOSSES or not run.has_hope:
            self._fail_execution(network, execution, error, effects)
        else:
            network.counters.retried += 1
            network.make_ready(run.again())

    def revive(self, device: HostedDevice) -> None:
        """Let *device* take runs again."""
        device.away_since = device.next_attempt = None
        device.is_up, device.lost = True, ""

    def bury(self, device: HostedDevice, reason: str, effects: Effects) -> None:
        """Give *device* up: a network that is on no other device is lost for now."""
        device.lost = reason
        for network in self.networks.values():
            for execution in network.hopeless:
                self._fail_execution(network, execution, DeviceError(reason), effects)
            if not network.lost and not network.is_somewhere:
                self._lose_network(
                    network, f"{reason}; network {network.name!r} is on no other device", effects
                )
        self.resume()

    def resume(self) -> None:
        """Take requests to lost networks that are on devices again; lost states stay lost."""
        for network in self.networks.values():
            if network.lost and not network.has_state and network.is_somewhere:
                network.lost = ""

    def _lose_network(self, network: ServedNetwork, reason: str, effects: Effects) -> None:
        network.lost = reason
        self.fail_network(network, DeviceError(reason), effects)

    def fail_network(self, network: ServedNetwork, error: GlowError, effects: Effects) -> None:
        """Answer all requests to *network* with *error*."""
        for execution in list(network.active):
            self._fail_execution(network, execution, error, effects)
        while (request := network.queue.head()) is not None:
            self._fail_request(network, request, error, effects)

    def _fail_execution(
        self, network: ServedNetwork, execution: Execution, error: GlowError, effects: Effects
    ) -> None:
        for request in execution.requests:
            if request.is_open:
                self._fail_request(network, request, error, effects)

    def _fail_request(
        self, network: ServedNetwork, request: Request, error: GlowError, effects: Effects
    ) -> None:
        self._close(request, effects)
        network.counters.failed += 1
        effects.failed.append((request, error))

    # Time.

    def expire(self, effects: Effects, now: float) -> None:
        """Answer the requests whose deadline has passed."""
        for request in [request for request in self._timed if request.deadline <= now]:
            network = self.networks[request.network]
            network.counters.late += 1
            self._fail_request(network, request, _late(request), effects)

    def overdue(self, now: float, grace: float) -> list[Run]:
        """Return the runs that devices have not ended *grace* seconds after their deadline."""
        runs = (run for device in self.devices for run in _runs_on(device))
        return [run for run in runs if run.execution.deadline + grace <= now]

    def next_time(self, now: float, grace: float) -> float:
        """Return when the next deadline is, of a request or of a device's run."""
        runs = (run for device in self.devices for run in _runs_on(device))
        ends = (run.execution.deadline + grace for run in runs)
        return min(
            min((request.deadline for request in self._timed), default=math.inf),
            min((end for end in ends if end > now), default=math.inf),
        )


def _runs_on(device: HostedDevice) -> list[Run]:
    """Return the runs that *device* has been given and has not ended, in order."""
    return [run for run in device.running if isinstance(run, Run)]


def _late(request: Request) -> DeadlineError:
    where = "it waited in the queue" if request.execution is None else "it was being computed"
    seconds = request.deadline - request.submitted
    return DeadlineError(
        f"network {request.network!r}: no answer within {seconds:.6g} s, the request's deadline; "
        f"{where}"
    )
