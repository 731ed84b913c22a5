"""On which device a part of a request runs."""

from __future__ import annotations

from dataclasses import replace

from glow_nb.runtime import partition
from glow_nb.runtime.planning.copies import AWAY, Copies
from glow_nb.runtime.planning.timing import TimedPart, timed_parts
from tests.unit.runtime.networks import chain, devices

FIRST, SECOND = timed_parts(
    partition(
        chain([8] * 3),
        devices(2, backend="interpreter"),
        assignment={"layer0": "d0", "layer1": "d1"},
    )
)


def on(device: str, timed: TimedPart) -> TimedPart:
    """Return a copy of a part on a *device*."""
    return replace(timed, part=replace(timed.part, device=device))


def test_a_part_goes_to_the_copy_that_has_least_to_do() -> None:
    copies = Copies([FIRST, SECOND, on("d2", FIRST)], ["d0", "d1", "d2"])
    assert copies.device(FIRST) == "d0"
    copies.change("d0", 1)
    assert copies.device(FIRST) == "d2"
    assert copies.device(SECOND) == "d1"
    copies.change("d2", AWAY)
    copies.change("d0", 100)
    assert copies.device(FIRST) == "d0"


def test_a_part_stays_where_its_device_has_others() -> None:
    copies = Copies([FIRST, on("d0", SECOND), on("d2", FIRST)], ["d0", "d1", "d2"])
    copies.change("d0", 100)
    assert copies.device(FIRST) == "d0"


def test_a_part_that_takes_longer_elsewhere_is_no_copy() -> None:
    longer = replace(FIRST.part, device="d2", seconds=2 * FIRST.part.seconds)
    copies = Copies([FIRST, SECOND, replace(FIRST, part=longer)], ["d0", "d1", "d2"])
    copies.change("d0", 100)
    assert copies.device(FIRST) == "d0"
