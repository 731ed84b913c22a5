"""Plans in which a device may have several parts: each unit goes to the device that ends it first.

They are needed where branches of a network can run side by side, and where one part for each device
does not fit. Units are placed in the order of their longest path to the end, each on the device
that ends it first (HEFT: Topcuoglu, Hariri and Wu, 2002), among those that have room for it, or
that ends what reads it first (Bittencourt, Sakellariou and Madeira, 2010): to come back from
another device takes time as well. Units with many weights can get their devices before, so that
they find room.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from glow_nb.runtime.devices.device_description import DeviceDescription
from glow_nb.runtime.planning.bounds import unit_bytes
from glow_nb.runtime.planning.candidate_parts import Floats
from glow_nb.runtime.planning.fleet import Fleet
from glow_nb.runtime.planning.units import Edge


@dataclass(frozen=True)
class Placed:
    """Units that are one part.

    Attributes:
        units: Their numbers, ascending.
        device: The number of the device.
    """

    units: tuple[int, ...]
    device: int


@dataclass
class _Spreading:
    """Where the units are that have been placed so far.

    Attributes:
        fleet: The devices, and what they run.
        kept: The bytes of the weights and states of each unit.
        room: Bytes that are left on each device.
        homes: The device of each unit for which it was decided before.
        device: The device of each unit that has its time.
        begin: When it begins there.
        end: When it is done there.
        free: When each device has nothing more to do.
    """

    fleet: Fleet
    kept: Floats
    room: list[float]
    homes: Mapping[int, int]
    device: MutableMapping[int, int] = field(default_factory=dict)
    begin: dict[int, float] = field(default_factory=dict)
    end: MutableMapping[int, float] = field(default_factory=dict)
    free: list[float] = field(default_factory=list)


def spread(
    fleet: Fleet, room: Sequence[float], *, homes: Mapping[int, int], looks_ahead: bool = False
) -> list[Placed] | None:
    """Return parts in an order in which they can run; None if some unit finds no room.

    Args:
        fleet: The devices, and what they run.
        room: Bytes that each device has for weights and states.
        homes: The device of each unit for which it is decided already.
        looks_ahead: Whether a unit goes where those that read from it end first, not where it does.
    """
    state = _Spreading(fleet, kept_bytes(fleet), list(room), homes, free=[0.0] * len(fleet.devices))
    reads = fleet.units.read
    for unit in _urgent_first(fleet):
        options = []
        for device in _open_devices(state, unit, room):
            end, begin = _times(state, reads[unit], unit, device)
            if np.isfinite(end) and state.kept[unit] <= state.room[device]:
                last = _last_end(state, unit, device, end) if looks_ahead else end
                options.append((last, end, begin, -state.room[device], device))
        if not options:
            return None
        _, end, begin, _, device = min(options)
        state.room[device] -= float(state.kept[unit])
        state.device[unit], state.begin[unit], state.end[unit] = device, begin, end
        state.free[device] = end
    return _parts(state, reads)


def kept_bytes(fleet: Fleet) -> Floats:
    """Return the bytes of the weights and states of each unit."""
    kept = np.zeros(len(fleet.units.units))
    for buffer, users in fleet.units.kept.items():
        kept[list(users)] += buffer.type.size_bytes
    return kept


def homes_by_size(fleet: Fleet, room: Sequence[float]) -> dict[int, int] | None:
    """Return a device for each unit that keeps weights, the largest first; None if one has no room.

    Each goes where most room is left.
    """
    left, homes = list(room), {}
    sizes = kept_bytes(fleet)
    least = unit_bytes(fleet)
    kinds = fleet.kind_of_device
    for unit in sorted(range(len(sizes)), key=lambda number: -sizes[number]):
        if not sizes[unit]:
            continue
        runs = least[unit] - sizes[unit]
        fitting = [
            device
            for device, kind in enumerate(kinds)
            if not fleet.kinds[kind].barred[unit] and left[device] >= sizes[unit] + runs
        ]
        if not fitting:
            return None
        homes[unit] = max(fitting, key=lambda device: left[device])
        left[homes[unit]] -= sizes[unit]
    return homes


def _urgent_first(fleet: Fleet) -> list[int]:
    """Return the units in the order of their longest path to the end, behind what they read."""
    least = fleet.seconds.min(axis=0)
    ahead = least.copy()
    for unit in reversed(range(len(ahead))):
        for other in fleet.units.before[unit]:
            ahead[other] = max(ahead[other], least[other] + ahead[unit])
    return sorted(range(len(ahead)), key=lambda unit: (-ahead[unit], unit))


def _open_devices(state: _Spreading, unit: int, room: Sequence[float]) -> list[int]:
    """Return the devices to try: of the empty ones, one of each kind, and all others."""
    if unit in state.homes:
        return [state.homes[unit]]
    found: list[int] = []
    seen: set[tuple[int, float]] = set()
    for device, kind in enumerate(state.fleet.kind_of_device):
        is_new = not state.free[device] and state.room[device] == room[device]
        if not is_new or (kind, room[device]) not in seen:
            found.append(device)
        if is_new:
            seen.add((kind, room[device]))
    return found


def _times(state: _Spreading, reads: Sequence[Edge], unit: int, device: int) -> tuple[float, float]:
    """Return when *unit* would be done on *device*, and when it would begin."""
    fleet, devices = state.fleet, state.fleet.devices
    kind = fleet.kind_of_device[device]
    begin = state.free[device]
    seconds = fleet.seconds[kind, unit] + fleet.host_seconds[kind, unit]
    for edge in reads:
        assert edge.producer is not None
        source = state.device[edge.producer]
        begin = max(begin, state.end[edge.producer])
        if source != device:
            seconds += _link_seconds(devices[source], devices[device], edge)
    return begin + seconds, begin


def _last_end(state: _Spreading, unit: int, device: int, end: float) -> float:
    """Return when the last reader of *unit* would be done, if that ends on *device* at *end*.

    A reader runs where one of the units is that it reads from, as far as these are placed.
    """
    after = replace(
        state,
        device=ChainMap({unit: device}, state.device),
        end=ChainMap({unit: end}, state.end),
        free=[end if n == device else free for n, free in enumerate(state.free)],
    )
    last = end
    for reader in {reader for edge in state.fleet.units.made[unit] for reader in edge.readers}:
        placed = [edge for edge in state.fleet.units.read[reader] if edge.producer in after.device]
        devices = {after.device[edge.producer] for edge in placed if edge.producer is not None}
        last = max(last, min(_times(after, placed, reader, one)[0] for one in devices))
    return last


def _link_seconds(source: DeviceDescription, target: DeviceDescription, edge: Edge) -> float:
    return source.link_to(target.name).seconds(edge.size_bytes)


def _parts(state: _Spreading, reads: Sequence[Sequence[Edge]]) -> list[Placed]:
    """Return what runs on each device as parts, ended where another device waits for a result.

    A part begins anew with a unit that reads from another device: then it need not wait for that
    before its first unit.
    """
    entering = {
        unit: [
            edge.producer
            for edge in edges
            if state.device[edge.producer or 0] != state.device[unit]
        ]
        for unit, edges in enumerate(reads)
    }
    waited_for = {producer for producers in entering.values() for producer in producers}
    order = sorted(state.device, key=lambda unit: (state.begin[unit], state.end[unit], unit))
    open_part: dict[int, list[int]] = {}
    parts: list[tuple[int, list[int]]] = []
    for unit in order:
        device = state.device[unit]
        enters = any(
            state.device[edge.producer] != device
            for edge in reads[unit]
            if edge.producer is not None
        )
        if enters or device not in open_part:
            open_part[device] = []
            parts.append((device, open_part[device]))
        open_part[device].append(unit)
        if unit in waited_for:
            del open_part[device]
    return [Placed(tuple(sorted(units)), device) for device, units in parts]
