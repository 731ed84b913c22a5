"""Which duplicate gets the next request."""

from __future__ import annotations

from glow_nb.runtime import partition
from glow_nb.runtime.hosting.hosted_device import DEPTH
from glow_nb.runtime.planning.least_busy import LeastBusy
from glow_nb.runtime.planning.timing import TimedPart, timed_parts
from tests.unit.runtime.networks import chain, devices


def parts_on(*names: str) -> list[TimedPart]:
    """Return parts on devices of the simulated cluster, one after the other."""
    made = [device for device in devices(4, backend="interpreter") if device.name in names]
    assignment = {f"layer{number}": device.name for number, device in enumerate(made)}
    return timed_parts(partition(chain([8] * (len(made) + 1)), made, assignment=assignment))


def test_duplicates_take_turns_until_they_are_full() -> None:
    choice = LeastBusy([parts_on("d0"), parts_on("d1")])
    taken = []
    while (number := choice.number()) is not None:
        taken.append(number)
        choice.change(number, 1)
    assert taken == [0, 1] * DEPTH
    choice.change(1, -1)
    assert choice.number() == 1


def test_of_duplicates_that_share_a_device_the_one_with_an_idle_device_is_next() -> None:
    choice = LeastBusy([parts_on("d0", "d2"), parts_on("d1", "d2"), parts_on("d3")])
    choice.change(0, 1)
    choice.change(2, DEPTH)
    assert choice.number() == 1
    for _ in range(2 * DEPTH - 1):
        choice.change(0, 1)
    assert choice.number() == 1  # the shared device has room for the requests of both
    choice.change(1, 2 * DEPTH)
    assert choice.number() is None
