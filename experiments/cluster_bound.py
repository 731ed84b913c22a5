"""How many requests a second can no plan for a cluster exceed?

A request goes through parts, each on a device that has room for it. A second of each device has a
price, such that a second of all of them costs 1. By any prices, no more requests are answered in a
second than it buys, if each costs as much as its cheapest parts with all that they receive and
send. Counted is what must move between devices since none holds the network. Prices go with a power
of the speed, and the power that gives the least bound is looked for.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from glow_nb.compiler import lower_for
from glow_nb.errors import PartitionError
from glow_nb.hlir.graph import Function
from glow_nb.runtime import DeviceDescription
from glow_nb.runtime.deploy import backend_of
from glow_nb.runtime.planning.cuts import all_cuts
from glow_nb.runtime.planning.fleet import Fleet, Kind, fleet_of
from glow_nb.runtime.planning.split import stacked_program
from glow_nb.runtime.planning.stretches import Floats, Stretches
from glow_nb.runtime.planning.units import units_of

POWERS = np.linspace(0, 2, 21)
"""With which powers of their speed the prices of devices go."""


def most_a_second(function: Function, devices: Sequence[DeviceDescription]) -> float:
    """Return the requests a second that no plans for *devices* exceed together.

    They may be any number of plans, in which a request visits each device once at most, and all
    devices have the same link to all others.

    Raises:
        PartitionError: The network has too many cuts to look at.
    """
    fleet = _fleet(function, devices)
    cuts = all_cuts(fleet.units)
    if cuts is None:
        raise PartitionError(f"{function.name!r} has too many cuts for a bound; give a simpler one")
    stretches = Stretches(fleet.units, cuts)
    kinds = zip(fleet.kinds, fleet.scratch, strict=True)
    seconds = [_least_seconds(stretches, kind, scratch) for kind, scratch in kinds]
    return min(_bought(fleet, seconds, power) for power in POWERS)


def _fleet(function: Function, devices: Sequence[DeviceDescription]) -> Fleet:
    backend = backend_of(devices[0])
    units = units_of(stacked_program(lower_for(function, backend), backend), backend.traits)
    return fleet_of(units, devices, {}, {d.name: [False] * len(units.units) for d in devices})


def _least_seconds(stretches: Stretches, kind: Kind, scratch: Sequence[int]) -> Floats:
    """Return how long each part takes a device of a *kind* at least; it is infinite without room.

    *scratch* is the working memory of each unit.
    """
    device, link = kind.device, kind.device.link
    total = stretches.seconds(device) + stretches.taken.seconds(link)
    total = total + stretches.fed.seconds(link) + stretches.given.seconds(link)
    needed = stretches.memory_bytes + stretches.most(scratch)
    return np.where(stretches.is_part & (needed <= kind.memory_bytes), total, np.inf)


def _bought(fleet: Fleet, seconds: Sequence[Floats], power: float) -> float:
    """Return how many requests a second of all devices buys, if parts take *seconds* by kind."""
    speeds = np.array([kind.device.multiply_adds_per_second for kind in fleet.kinds])
    prices = (speeds / speeds.max()) ** power
    prices /= prices @ [len(kind.devices) for kind in fleet.kinds]
    cheapest = np.min([price * took for price, took in zip(prices, seconds, strict=True)], axis=0)
    spent = np.full(len(cheapest), np.inf)
    spent[0] = 0
    for cut in range(1, len(spent)):  # larger cuts come later
        spent[cut] = (spent[:cut] + cheapest[:cut, cut]).min()
    return float(1 / spent[-1])
