"""A Chrome trace of a host: requests in queues, runs on devices, and the values between them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from glow_nb.base.arguments import as_path
from glow_nb.base.size import hinted
from glow_nb.runtime.hosting.dataflow import Dataflow
from glow_nb.system.replaced_files import replace_file

MOST_EVENTS = 1_000_000
"""The largest number of events that a tracer keeps, of some hundred bytes each. Later events are
dropped."""

_DEVICES, _REQUESTS = 1, 2
"""The processes of the trace: one row for each device, one for each network."""

Event = dict[str, object]


@dataclass(frozen=True)
class TracedRun:
    """A run on a device; times are those of ``time.monotonic``.

    Attributes:
        flow: The network, of one batch size.
        part: The index of the part in the network.
        execution: The number of the execution among those of the network.
        device: The name of the device.
        began: When the device could begin: it had received the run, and had ended the previous one.
        ended: When the host was told of its end.
    """

    flow: Dataflow
    part: int
    execution: int
    device: str
    began: float
    ended: float


@dataclass(frozen=True)
class TracedRequest:
    """A request from submission to answer.

    Attributes:
        network: The name of the network.
        rows: The number of samples.
        submitted: When it was submitted.
        began: When it left the queue; None if it never did.
        ended: When it was answered or cancelled.
        execution: The number of the execution that it was part of; None if there was none.
    """

    network: str
    rows: int
    submitted: float
    began: float | None
    ended: float
    execution: int | None


class Tracer:
    """Records events of a host, for ``chrome://tracing`` or https://ui.perfetto.dev.

    Attributes:
        runs: The runs that have ended, in this order.
        requests: The requests that have ended, in this order.
    """

    def __init__(self, most_events: int = MOST_EVENTS) -> None:
        """Keep at most *most* runs, and *most* requests."""
        self._most = most_events
        self.runs: list[TracedRun] = []
        self.requests: list[TracedRequest] = []

    def ran(self, run: TracedRun) -> None:
        """Keep a run that has ended."""
        if len(self.runs) < self._most:
            self.runs.append(run)

    def closed(self, request: TracedRequest) -> None:
        """Keep a request that is answered or cancelled."""
        if len(self.requests) < self._most:
            self.requests.append(request)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the trace as JSON to *path*, whole or not at all; raise GlowError if that fails."""
        trace = {"traceEvents": list(self.events()), "displayTimeUnit": "ms"}
        text = json.dumps(trace)
        replace_file(as_path(path), lambda place: place.write_text(text, encoding="utf-8"))

    def events(self) -> Iterator[Event]:
        """Yield the events of the trace, in the format of Chrome's trace viewer."""
        runs, requests = list(self.runs), list(self.requests)
        devices = _numbered(run.device for run in runs)
        networks = _numbered(request.network for request in requests)
        yield from _names(_DEVICES, "devices", devices)
        yield from _names(_REQUESTS, "requests", networks)
        for run in runs:
            yield from _run_events(run, devices[run.device])
        yield from _transfers(runs, devices)
        for number, request in enumerate(requests):
            yield from _request_events(request, number, networks[request.network])


def _numbered(names: Iterator[str]) -> dict[str, int]:
    return {name: number for number, name in enumerate(dict.fromkeys(names), 1)}


def _names(process: int, title: str, rows: Mapping[str, int]) -> Iterator[Event]:
    yield {"ph": "M", "pid": process, "name": "process_name", "args": {"name": title}}
    for name, row in rows.items():
        names: Event = {"ph": "M", "pid": process, "tid": row, "name": "thread_name"}
        yield {**names, "args": {"name": name}}


def _run_events(run: TracedRun, row: int) -> Iterator[Event]:
    part = run.flow.parts[run.part].deployable
    yield {
        "ph": "X",
        "pid": _DEVICES,
        "tid": row,
        "name": part.name,
        "cat": "run",
        "ts": _micro(run.began),
        "dur": _micro(run.ended - run.began),
        "args": {
            "network": run.flow.name,
            "execution": run.execution,
            "batch": run.flow.rows,
            "bytes in": sum(hinted(type.size_bytes) for _, type in part.inputs),
            "bytes out": sum(hinted(type.size_bytes) for _, type in part.outputs),
        },
    }


def _transfers(runs: list[TracedRun], devices: Mapping[str, int]) -> Iterator[Event]:
    """Yield an arrow for each value that one run makes and another one reads."""
    made: dict[tuple[str, int, str], TracedRun] = {}
    number = 0
    for run in sorted(runs, key=lambda run: run.ended):
        part = run.flow.parts[run.part]
        for name, type in part.deployable.inputs:
            maker = made.get((run.flow.name, run.execution, name))
            if maker is None:  # an input of the whole network
                continue
            number += 1
            arrow: Event = {"pid": _DEVICES, "name": name, "cat": "transfer", "id": number}
            arrow["args"] = {
                "bytes": hinted(type.size_bytes),
                "from": maker.device,
                "to": run.device,
            }
            yield {**arrow, "ph": "s", "tid": devices[maker.device], "ts": _last_moment(maker)}
            end: Event = {"ph": "f", "bp": "e", "tid": devices[run.device]}
            yield {**arrow, **end, "ts": _micro(run.began)}
        for name in part.outputs:
            made[run.flow.name, run.execution, name] = run


def _last_moment(run: TracedRun) -> float:
    """Return a time at the end of *run*, and in it: viewers draw an arrow from what runs then."""
    return max(_micro(run.began), _micro(run.ended) - 0.001)


def _request_events(request: TracedRequest, number: int, row: int) -> Iterator[Event]:
    """Yield the spans of a request: all of it, and within it the time in the queue."""
    common: Event = {"pid": _REQUESTS, "tid": row, "cat": "request", "id": number}
    common["args"] = {"rows": request.rows, "execution": request.execution}
    left = request.ended if request.began is None else request.began
    spans = (
        ("b", request.network, request.submitted),
        ("b", "queue", request.submitted),
        ("e", "queue", left),
        ("e", request.network, request.ended),
    )
    for phase, name, when in spans:
        yield {**common, "ph": phase, "name": name, "ts": _micro(when)}


def _micro(seconds: float) -> float:
    return round(seconds * 1e6, 3)
