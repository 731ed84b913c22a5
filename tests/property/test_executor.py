"""Random networks in random parts on random devices give what they give whole."""

from __future__ import annotations

import random
import threading
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import glow_nb
from glow_nb.hlir.graph import Function
from glow_nb.hlir.ops import Add
from glow_nb.runtime.hosting import recovery
from glow_nb.runtime.hosting.host import HostManager
from tests.in_turn import marked
from tests.unit.runtime.scripted_device import Killer, ScriptedDevice
from tests.unit.runtime.small_networks import planned, row


def node(index: int, left: str, right: str, made: str) -> Function:
    """Return ``made = left + right``, or twice one that both are."""
    builder = glow_nb.Builder(f"part{index}")
    x = builder.input(left, "float32<1 x 2>")
    y = x if left == right else builder.input(right, "float32<1 x 2>")
    builder.save(builder.emit(Add(x, y)), made)
    return builder.function()


@given(data=st.data(), parts=st.integers(1, 7), seed=st.integers(0, 100))
@settings(max_examples=10)
def test_parts_give_what_the_whole_gives(data: st.DataObject, parts: int, seed: int) -> None:
    names, functions, expected = ["x"], list[Function](), {"x": 1.0}
    for index in range(parts):
        made = "y" if index == parts - 1 else f"v{index}"
        left, right = (data.draw(st.sampled_from(names)) for _ in range(2))
        functions.append(node(index, left, right, made))
        expected[made] = expected[left] + expected[right]
        names.append(made)
    devices = [ScriptedDevice(name) for name in "abc"]
    rng = random.Random(seed)
    for device in devices:
        device.before_run = lambda _: time.sleep(rng.random() * 2e-4)
    places = [data.draw(st.sampled_from("abc")) for _ in functions]
    with HostManager(devices) as host:
        host.add_network("net", planned(functions, places), duplicates=data.draw(st.integers(1, 3)))
        requests = [host.submit("net", row(number)) for number in range(12)]
        for number, request in enumerate(requests):
            assert np.array_equal(request.result(30)["y"], row(number * expected["y"])["x"])


def use(host: HostManager, number: int, seed: int) -> None:
    """Add a network, send requests, cancel some, and remove it, some times over."""
    rng, name = random.Random(seed * 100 + number), f"net{number}"
    for turn in range(3):
        functions = [node(0, "x", "x", "v"), node(1, "v", "x", "y")]
        try:
            host.add_network(name, planned(functions, rng.sample("abc", 2)))
        except glow_nb.GlowError:  # a device is dead just now
            continue
        requests = [host.submit(name, row(turn), deadline=20.0) for _ in range(10)]
        for request in requests[::3]:
            request.cancel()
        for request in requests:
            if not request.cancelled():
                assert np.array_equal(request.result(60)["y"], row(3 * turn)["x"])
        host.remove_network(name)


@pytest.mark.parametrize("seed", marked(range(2), only=[0]))
def test_nothing_waits_for_ever_whoever_calls(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many threads submit, cancel, add and remove, while devices die."""
    monkeypatch.setattr(recovery, "PAUSES", (0.0, *[0.001] * 20))
    devices = [ScriptedDevice(name) for name in "abc"]
    failures: list[BaseException] = []

    def guarded(number: int) -> None:
        try:
            use(host, number, seed)
        except BaseException as error:
            failures.append(error)

    with HostManager(devices, grace=30.0) as host, Killer(devices, seed, 0.02):
        threads = [threading.Thread(target=guarded, args=(n,), daemon=True) for n in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive()
    assert all(isinstance(failure, glow_nb.DeviceError) for failure in failures), failures
