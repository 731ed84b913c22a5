"""A simulated device takes the time that is estimated, and fails as often as it should."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

from glow_nb.base.errors import DeviceError, OptionError
from glow_nb.runtime.deployable import Deployable
from glow_nb.runtime.devices.device_description import Link
from glow_nb.runtime.planning.costs import KERNEL_SECONDS, OTHER
from tests.unit.runtime.deployables import feed
from tests.unit.runtime.devices.conftest import Open

pytestmark = pytest.mark.jit

SLOW = {
    "multiply_adds_per_second": 1e6,
    "memory_bytes_per_second": 8e5,
    "link": Link(4e5, 0.001),
}
TRANSFERS = 2 * (0.001 + 4000 / 4e5)
SECONDS = TRANSFERS + KERNEL_SECONDS + 8000 / 8e5
"""Of a run of ``y = x * x``: input and output are 4000 bytes each, and it does 1000 products."""


def test_time_is_estimated_and_not_spent(
    opened: Open, native: Deployable, interpreted: Deployable
) -> None:
    device = opened("simulated", **SLOW)
    device.add("native", native)
    device.add("interpreted", interpreted)
    assert device.busy_seconds == 0
    began = time.monotonic()
    for count, key in enumerate(("native", "interpreted") * 50, 1):
        np.testing.assert_array_equal(device.run(key, [feed(0)])[0], feed(0) ** 2)
        assert device.busy_seconds == pytest.approx(count * SECONDS)
    assert time.monotonic() - began < device.busy_seconds


def test_arithmetic_takes_time_too(opened: Open, native: Deployable) -> None:
    device = opened("simulated", **SLOW | {"multiply_adds_per_second": 1e3})
    device.add("net", native)
    device.run("net", [feed(0)])
    assert device.busy_seconds == pytest.approx(TRANSFERS + KERNEL_SECONDS + OTHER)


def test_scaled_time_is_spent(opened: Open, native: Deployable) -> None:
    device = opened("simulated", **SLOW, options={"time_scale": 0.5})
    device.add("net", native)
    began = time.monotonic()
    device.run("net", [feed(0)])
    assert time.monotonic() - began >= SECONDS / 2


def test_results_need_not_be_computed(opened: Open, native: Deployable) -> None:
    device = opened("simulated", options={"computes": False})
    device.add("net", native)
    (result,) = device.run("net", [feed(0)])
    assert (result.shape, result.dtype, result.any()) == ((1000,), np.float32, False)


def deaths(device: Any, network: Deployable, runs: int) -> list[int]:
    """Return at which of *runs* the device died; it was restarted each time."""
    died = []
    device.add("net", network)
    for number in range(runs):
        try:
            device.run("net", [feed(0)])
        except DeviceError as error:
            assert "it failed, as it does in 0.1 of its runs" in str(error)
            died.append(number)
            device.restart()
            device.add("net", network)
    return died


def test_it_fails_at_its_rate_and_in_the_same_runs(opened: Open, native: Deployable) -> None:
    options = {"failure_rate": 0.1, "seed": 3, "computes": False}
    first, second = (
        deaths(opened("simulated", name=name, options=options), native, 300) for name in "ab"
    )
    assert first == second
    assert 15 <= len(first) <= 50


def test_it_hangs_until_it_is_killed(opened: Open, native: Deployable) -> None:
    device = opened("simulated", options={"hang_rate": 1.0})
    device.add("net", native)
    future = device.submit("net", [feed(0)])
    with pytest.raises(TimeoutError):
        future.result(0.05)
    device.kill("it did not answer")
    with pytest.raises(DeviceError, match="it did not answer"):
        future.result(30)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"time_scale": -1.0}, "time_scale=-1.0: give 0 or more"),
        ({"failure_rate": 2}, "failure_rate=2.0: give a number from 0 to 1"),
        ({"hang_rate": float("nan")}, "hang_rate=nan: give a number from 0 to 1"),
        ({"seed": "x"}, "attribute 'seed' must be int, got 'x'"),
        ({"fail_rate": 1}, "unknown option 'fail_rate'; did you mean 'failure_rate'"),
    ],
)
def test_options_are_checked(opened: Open, options: dict[str, object], message: str) -> None:
    with pytest.raises(OptionError, match=f"device 'd': .*{message}"):
        opened("simulated", options=options)
