"""How many parts the search for a plan makes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from glow_nb.runtime import DeviceDescription, Link
from glow_nb.runtime.planning import planner
from glow_nb.runtime.planning.chains import best_walk
from glow_nb.runtime.planning.parts import Parts, Sized
from tests.unit.runtime.planning.test_bounds import fleet_for, forks


def counted(function: Callable[..., Any], calls: list[object]) -> Callable[..., Any]:
    """Return *function*, which then leaves what it returns in *calls*."""

    def call(*arguments: object) -> object:
        calls.append(function(*arguments))
        return calls[-1]

    return call


def test_after_a_part_that_finds_no_room_no_other_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    walks: list[object] = []
    parts: list[Sequence[int]] = []
    make = Parts.make

    def too_large(self: Parts, units: Sequence[int], device: DeviceDescription) -> Sized:
        parts.append(units)
        return replace(make(self, units, device), run_bytes=1 << 50)

    monkeypatch.setattr(planner, "best_walk", counted(best_walk, walks))
    monkeypatch.setattr(Parts, "make", too_large)
    fleet = fleet_for(forks(4), 4, Link(1e9))
    assert not list(planner.Planner(fleet, "throughput")._walks())
    assert len(parts) > 4
    assert len(parts) == sum(walk is not None for walk in walks)
