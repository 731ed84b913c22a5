"""Ctrl-C at any place: the host goes on or can be closed, and nothing waits for ever."""

from __future__ import annotations

import linecache
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import glow_nb.runtime
from glow_nb.base.errors import DeviceError
from glow_nb.runtime.devices.device_description import DeviceDescription
from glow_nb.runtime.devices.engine import Run
from glow_nb.runtime.devices.managed_device import ManagedDevice
from glow_nb.runtime.devices.open_device import open_device
from glow_nb.runtime.hosting import request_queue
from glow_nb.runtime.hosting.host import HostManager
from glow_nb.runtime.hosting.request import Request
from tests.unit.runtime.small_networks import row, scaled

INTERPRETER = DeviceDescription("a", kind="interpreter", backend="interpreter")
RUNTIME = str(Path(glow_nb.runtime.__file__).parent)


def asked() -> Request:
    return Request("net", [], lambda _: True)


def test_a_request_that_is_interrupted_on_its_way_does_not_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def push(heap: list[Any], entry: Any) -> None:
        heap.append(entry)
        raise KeyboardInterrupt

    queue, first = request_queue.RequestQueue("net", 10), asked()
    queue.push(first)
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr("heapq.heappush", push)
        queue.push(asked())
    assert (len(queue), queue.rows, queue.head()) == (1, 1, first)


def test_a_run_that_is_interrupted_as_it_begins_keeps_no_slot(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def begin(self: ManagedDevice, run: Run) -> None:
        begin_run(self, run)
        raise KeyboardInterrupt

    begin_run = ManagedDevice._begin
    with HostManager([INTERPRETER]) as host:
        host.add_network("double", scaled(2.0))
        with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
            patched.setattr(ManagedDevice, "_begin", begin)
            host.run("double", row(1))
        assert host.run("double", row(1), deadline=30)["y"][0, 0] == 2.0, "it was restarted"
        assert host.health()["a"].running == 0


class KeptLock:
    """A lock whose owner is interrupted before it lets go."""

    def acquire(self, *, blocking: bool) -> bool:
        return not blocking

    def release(self) -> None:
        raise KeyboardInterrupt


def test_an_interrupt_in_place_of_the_release_of_a_lock_keeps_no_run_waiting() -> None:
    device = open_device(INTERPRETER)
    assert isinstance(device, ManagedDevice)
    with HostManager([device]) as host:
        host.add_network("double", scaled(2.0))
        device.__dict__["_dispatching"] = KeptLock()
        with pytest.raises(KeyboardInterrupt):
            host.submit("double", row(1))
        assert host.submit("double", row(1), deadline=30).result()["y"][0, 0] == 2.0
    device.close()


def test_a_name_is_free_after_an_interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with HostManager([INTERPRETER]) as host:
        with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
            patched.setattr(host._provisioner, "load", interrupt)
            host.add_network("double", scaled(2.0))
        host.add_network("double", scaled(2.0))


@contextmanager
def interrupted_at(number: int) -> Iterator[list[int]]:
    """Raise KeyboardInterrupt at that line of the runtime's code; give how many lines there were.

    The end of a ``with`` statement is left out: no signal comes between its body and its end.
    """
    count = [0]

    def trace(frame: FrameType, event: str, _: object) -> Any:
        if not frame.f_code.co_filename.startswith(RUNTIME):
            return None
        seen: set[int] = set()

        def at_line(frame: FrameType, event: str, _: object) -> Any:
            text = linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()
            is_end = frame.f_lineno in seen and text.startswith("with ")
            seen.add(frame.f_lineno)
            if event == "line" and not is_end and text != "try:":
                count[0] += 1
                if count[0] == number:
                    sys.settrace(None)
                    raise KeyboardInterrupt(f"{frame.f_code.co_filename}:{frame.f_lineno}")
            return at_line

        return at_line

    sys.settrace(trace)
    try:
        yield count
    finally:
        sys.settrace(None)


def ends(work: Callable[[], object]) -> bool:
    """Return whether *work* ends by itself or by an error of ours."""

    def attempt() -> None:
        with suppress(DeviceError):
            work()

    thread = threading.Thread(target=attempt, daemon=True)
    thread.start()
    thread.join(20)
    return not thread.is_alive()


CALLS: dict[str, Callable[[HostManager], object]] = {
    "run": lambda host: host.run("double", row(1)),
    "submit": lambda host: host.submit("double", row(1)).result(),
    "add": lambda host: host.add_network("triple", scaled(3.0)),
    "remove": lambda host: host.remove_network("double"),
    "close": lambda host: host.close(),
}


@pytest.mark.slow
@pytest.mark.parametrize("call", CALLS)
def test_an_interrupt_at_any_line_leaves_a_host_that_can_be_closed(call: str) -> None:
    number, lines, where = 0, [1], "nowhere"
    while number < lines[0]:
        number += 1
        host = HostManager([INTERPRETER])
        host.add_network("double", scaled(2.0))
        try:
            with interrupted_at(number) as lines:
                CALLS[call](host)
        except KeyboardInterrupt as interrupt:
            lines, where = [number + 1], str(interrupt)
        if call in ("run", "submit", "add"):
            assert ends(partial(host.run, "double", row(1))), where
        assert ends(partial(host.close, 1.0)), where
