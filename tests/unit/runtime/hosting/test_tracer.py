"""The trace of a host: what it holds, and that Chrome's viewer can read it."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from glow_nb.runtime.hosting.host import HostManager
from glow_nb.runtime.hosting.tracer import Tracer
from tests.unit.runtime.scripted_device import ScriptedDevice
from tests.unit.runtime.small_networks import diamond, row

Event = dict[str, Any]


def test_a_trace_has_requests_runs_and_what_goes_between_them(tmp_path: Path) -> None:
    tracer = Tracer()
    with HostManager([ScriptedDevice("a"), ScriptedDevice("b")], tracer=tracer) as host:
        host.add_network("net", diamond("a", "b", "a", "b"))
        for number in range(3):
            host.run("net", row(number))
        path = tmp_path / "trace.json"
        tracer.save(path)
    events = json.loads(path.read_text())["traceEvents"]
    kinds = Counter((event["ph"], event.get("cat")) for event in events)
    assert kinds["X", "run"] == 3 * 4
    assert kinds["s", "transfer"] == kinds["f", "transfer"] == 3 * 4  # a twice, b and c once
    assert kinds["b", "request"] == kinds["e", "request"] == 3 * 2
    names = [e["args"]["name"] for e in events if e["name"] == "thread_name"]
    assert names == ["a", "b", "net"]
    for start, end in zip(
        [e for e in events if e["ph"] == "s"], [e for e in events if e["ph"] == "f"], strict=True
    ):
        assert start["id"] == end["id"]
        assert start["ts"] <= end["ts"]
        assert sum(e["ph"] == "X" and _is_during(e, start) for e in events) == 1
    assert all(run.began <= run.ended for run in tracer.runs)


def _is_during(run: Event, moment: Event) -> bool:
    """Whether *moment* is in the bar of *run*, whose end belongs to the next bar."""
    inside: bool = run["ts"] <= moment["ts"] < run["ts"] + run["dur"]
    return inside and bool(run["tid"] == moment["tid"])


def test_a_tracer_keeps_no_more_than_it_may() -> None:
    tracer = Tracer(most_events=2)
    with HostManager([ScriptedDevice("a")], tracer=tracer) as host:
        host.add_network("net", diamond("a", "a", "a", "a"))
        for number in range(3):
            host.run("net", row(number))
    assert (len(tracer.runs), len(tracer.requests)) == (2, 2)
