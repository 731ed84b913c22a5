"""The dispatcher: changes the schedule under a lock, gives runs to devices, answers requests.

Threads of all devices and users come here. Each changes the schedule under the lock, and carries
out the effects when it has released it, so that no code of a device or of a user runs under it.
Two runs that two threads give to a device at the same time may therefore come in either order.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import ExitStack
from functools import partial
from typing import TypeVar

from glow_nb.base.errors import DeviceError, GlowError
from glow_nb.base.memory_limit import out_of_memory
from glow_nb.base.types import Array
from glow_nb.runtime.hosting.effects import Effects, Outcome
from glow_nb.runtime.hosting.executor import Execution, Run
from glow_nb.runtime.hosting.hosted_device import HostedDevice
from glow_nb.runtime.hosting.request import Request
from glow_nb.runtime.hosting.schedule import Schedule
from glow_nb.runtime.hosting.served_network import ServedNetwork
from glow_nb.runtime.hosting.timer import Timer

LOOK_SECONDS = 1.0
"""How often devices are asked how they are: one that has died may have nothing to do."""

T = TypeVar("T")


class Dispatcher:
    """Gives the runs of a schedule to their devices, and answers its requests."""

    def __init__(
        self, schedule: Schedule, on_lost: Callable[[HostedDevice], None], *, grace: float
    ) -> None:
        """Keep *schedule* going; *on_lost* is called with each device that is lost.

        A device that has not ended a run *grace* seconds after its deadline is killed.
        """
        self._schedule, self._on_lost, self._grace = schedule, on_lost, grace
        self._lock = threading.Lock()
        self._idle = threading.Condition(self._lock)
        self._removals = 0  # threads that wait for networks to be idle
        self._timer = Timer(self._look)

    def start(self) -> None:
        """Begin to look after deadlines and devices."""
        self._timer.start()

    def submit(self, network: ServedNetwork, request: Request) -> None:
        """Let *request* wait for *network*, or begin; raise as :meth:`ServedNetwork.accept`."""
        self._change(partial(self._schedule.accept, network, request))

    def withdraw(self, request: Request) -> bool:
        """Close *request*; return False if that has been done before."""
        return self._change(partial(self._schedule.withdraw, request))

    def revive(self, device: HostedDevice) -> None:
        """Let *device*, which holds all that it should hold, take runs again."""
        self._change(lambda _: self._schedule.revive(device))

    def bury(self, device: HostedDevice, reason: str) -> None:
        """Let no request wait for *device*."""
        self._change(partial(self._schedule.bury, device, reason))

    def resume(self) -> None:
        """Take requests to networks that are on devices again."""
        self._change(lambda _: self._schedule.resume())

    def fail(self, network: ServedNetwork, error: GlowError) -> None:
        """Answer all requests to *network* with *error*."""
        self._change(partial(self._schedule.fail_network, network, error))

    def read(self, look: Callable[[], T]) -> T:
        """Return what *look* finds while nothing changes."""
        with self._lock:
            return look()

    def add(self, network: ServedNetwork) -> None:
        """Let requests to *network* come."""
        with self._lock:
            self._schedule.networks[network.name] = network

    def drain(
        self, networks: Sequence[ServedNetwork], reason: str, timeout: float | None = None
    ) -> bool:
        """Refuse requests to *networks* for *reason*, and forget those whose requests are answered.

        Wait for that, and return whether it was within *timeout* seconds.
        """
        with self._lock:
            for network in networks:
                network.leaving = reason
            self._removals += 1
            try:
                in_time = self._idle.wait_for(lambda: all(n.is_idle for n in networks), timeout)
            finally:
                self._removals -= 1
            for network in networks:
                if network.is_idle and self._schedule.networks.get(network.name) is network:
                    del self._schedule.networks[network.name]
            return in_time

    def stop(self) -> None:
        """Look after nothing any more."""
        self._timer.stop()

    def _change(self, change: Callable[[Effects], T]) -> T:
        """Let *change* change the schedule, and carry out its effects."""
        effects = Effects()
        with self._lock:
            result = change(effects)
            self._settle(effects)
        self._carry_out(effects)
        return result

    def _settle(self, effects: Effects) -> None:
        self._schedule.fill(effects, time.monotonic())
        if self._removals:
            self._idle.notify_all()

    def _carry_out(self, effects: Effects) -> None:
        """Do what *effects* say; the errors of users' callbacks come when all is done."""
        try:
            self._begin_runs(effects)
        except BaseException:  # an interrupt from the keyboard: the other requests go on
            self._carry_out(effects)
            raise
        if effects.wake != math.inf:
            self._timer.at(effects.wake)
        for run in effects.dropped:
            run.cancel()
        for device in effects.lost:
            self._on_lost(device)
        if effects.failed or len(effects.finished) > 1:
            self._answer_all(effects)
        elif effects.finished:
            _answer(*effects.finished[0])

    def _begin_runs(self, effects: Effects) -> None:
        while effects.runs:
            self._go_on(effects.runs.pop(0), effects)

    def _answer_all(self, effects: Effects) -> None:
        with ExitStack() as answers:
            for request, error in effects.failed:
                answers.callback(request.answer, error)
            for execution, requests in effects.finished:
                answers.callback(_answer, execution, requests)

    def _go_on(self, run: Run, effects: Effects) -> None:
        """Give *run* to its device; if it ends at once, take what came of it."""
        try:
            outcome = self._hand_over(run)
            if outcome is not None:
                self._end(run, outcome, effects)
        except BaseException:  # an interrupt from the keyboard
            self._change(partial(self._schedule.end, run, CancelledError(), now=time.monotonic()))
            raise

    def _hand_over(self, run: Run) -> Outcome | None:
        """Give *run* to its device; return what came of it if it ends at once."""
        assert run.copy is not None
        device = run.device.device
        run.launcher = threading.get_ident()
        try:
            feeds = run.execution.feeds(run.part)
            with run.device.border:
                run.future = future = device.submit(run.copy.key, feeds)
                # until it ends: it holds what it calls, so that they are a cycle
                future.add_done_callback(partial(self._on_done, run))
        except GlowError as error:
            return error
        except MemoryError as error:
            return out_of_memory(f"network {run.execution.flow.name!r}", error)
        run.launcher = None
        return _outcome(run, future) if run.ended_at_once else None

    def _on_done(self, run: Run, future: Future[list[Array]]) -> None:
        """Go on after *run*; called by whichever thread has ended it."""
        if run.launcher == threading.get_ident():  # it is still in _hand_over, which goes on
            run.ended_at_once = True
            return
        effects = Effects()
        self._end(run, _outcome(run, future), effects)
        self._carry_out(effects)

    def _end(self, run: Run, outcome: Outcome, effects: Effects) -> None:
        with self._lock:
            self._schedule.end(run, outcome, effects, time.monotonic())
            self._settle(effects)

    def _look(self) -> float:
        """Look after deadlines and devices; return when to look again."""
        self._change(lambda effects: self._schedule.expire(effects, time.monotonic()))
        for run in self.read(lambda: self._schedule.overdue(time.monotonic(), self._grace)):
            self._end_overdue(run)
        for device in self._schedule.devices:
            self._check(device)
        now = time.monotonic()
        return min(
            now + LOOK_SECONDS, self.read(lambda: self._schedule.next_time(now, self._grace))
        )

    def _end_overdue(self, run: Run) -> None:
        """Take *run* back from its device, which is killed if it has begun with it."""
        if run.cancel():
            return
        device = run.device
        error = DeviceError(
            f"{device.name}: killed, since it did not end a run of network "
            f"{run.execution.flow.name!r} within {self._grace:g} s after its deadline"
        )
        effects = Effects()
        with self._lock:
            if run not in device.running:
                return
            self._schedule.lose(device, error, effects)
            self._settle(effects)
        device.kill(str(error))
        self._carry_out(effects)

    def _check(self, device: HostedDevice) -> None:
        """Lose *device* if it says that it is dead."""
        losses = device.losses
        if not device.is_up:
            return
        health = device.health()
        if health.alive or device.losses != losses:
            return
        error = DeviceError(f"{device.name}: {health.reason or 'it has died'}")
        self._change(partial(self._schedule.lose, device, error))


def _outcome(run: Run, future: Future[list[Array]]) -> Outcome:
    """Return what came of *run*; an error that is not ours becomes one that names the device."""
    run.future = None
    if future.cancelled():
        return CancelledError()
    error = future.exception()
    if error is None:
        assert run.copy is not None
        try:
            with run.device.border:
                return run.copy.checked(future.result())
        except GlowError as wrong:
            return wrong
    if isinstance(error, GlowError):
        return error
    return GlowError(f"{run.device.name}: {type(error).__name__}: {error}")


def _answer(execution: Execution, requests: Sequence[Request]) -> None:
    """Answer *requests* with the results of *execution*."""
    results: Sequence[dict[str, Array] | GlowError]
    try:
        results = execution.results()
    except MemoryError as error:
        failure = out_of_memory(f"network {execution.flow.name!r}", error)
        results = [failure] * len(execution.requests)
    if len(results) == 1:
        requests[0].answer(results[0])
        return
    wanted = set(requests)
    with ExitStack() as answers:
        for request, result in zip(execution.requests, results, strict=True):
            if request in wanted:
                answers.callback(request.answer, result)
