"""Where a user wants nodes to run: devices by the name of a node, or by a pattern of names."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from fnmatch import fnmatchcase

from glow_nb.base.errors import OptionError, PartitionError
from glow_nb.base.schema import closest
from glow_nb.runtime.planning.units import Units

Assignment = Mapping[str, str]
"""Names or patterns of nodes (``*``, ``?``, ``[ab]``), each with the name of a device."""


def assigned_devices(
    units: Units, assignment: Assignment, devices: Collection[str]
) -> dict[int, str]:
    """Return the device of each unit that *assignment* names.

    The first pattern that fits a node counts. Each device has one part of what is assigned.

    Raises:
        OptionError: There is no such device, or no node that fits a pattern.
        PartitionError: Nodes that are one kernel are to run on several devices, or what is assigned
            to one device needs what is assigned to another one, and the reverse.
    """
    for pattern, device in assignment.items():
        if device not in devices:
            raise OptionError(
                f"assignment of {pattern!r}: there is no device {device!r}"
                f"{closest(str(device), devices)}; there are {', '.join(devices)}"
            )
    found: dict[int, str] = {}
    used: set[str] = set()
    for number, unit in enumerate(units.units):
        wanted: dict[str, str] = {}
        for node in unit.nodes:
            fitting = [pattern for pattern in assignment if fnmatchcase(node, pattern)]
            if fitting:
                used.update(fitting)
                wanted.setdefault(assignment[fitting[0]], node)
        if len(wanted) > 1:
            places = ", ".join(f"{node!r} on {device!r}" for device, node in wanted.items())
            raise PartitionError(
                f"assignment: {places}: these nodes run in one kernel, or share memory; "
                "assign them to one device"
            )
        found.update((number, device) for device in wanted)
    for pattern in assignment:
        if pattern not in used:
            names = [node for unit in units.units for node in unit.nodes]
            raise OptionError(
                f"assignment of {pattern!r}: no node is called so{closest(pattern, names)}"
            )
    _refuse_circles(units, found)
    return found


def _refuse_circles(units: Units, found: Mapping[int, str]) -> None:
    """Raise PartitionError if what is assigned to a device is needed before and after another."""
    needs: dict[str, dict[str, tuple[int, int]]] = {}
    above: list[dict[str, int]] = []  # for each unit, devices that it needs, each with a unit there
    for number, before in enumerate(units.before):
        needed: dict[str, int] = {}
        for other in sorted(before):
            needed.update(above[other])
            if other in found:
                needed[found[other]] = other
        above.append(needed)
        if number in found:
            for device, other in needed.items():
                if device != found[number]:
                    needs.setdefault(found[number], {}).setdefault(device, (number, other))
    circle = _circle(needs)
    if circle:
        steps = "; ".join(
            f"{device!r} has {_node(units, needs[device][other][0])}, which needs "
            f"{_node(units, needs[device][other][1])} of {other!r}"
            for device, other in zip(circle, (*circle[1:], circle[0]), strict=True)
        )
        raise PartitionError(
            f"assignment: the devices wait for each other: {steps}; "
            "assign what lies between to one of them"
        )


def _circle(needs: Mapping[str, Mapping[str, object]]) -> Sequence[str]:
    """Return devices that need each other, each the next one; none if there are none."""
    done: set[str] = set()
    for root in needs:
        path: list[str] = [root]
        branches = [iter(needs[root])]
        while branches:
            following = next(branches[-1], None)
            if following is None:
                done.add(path.pop())
                branches.pop()
            elif following in path:
                return path[path.index(following) :]
            elif following not in done:
                path.append(following)
                branches.append(iter(needs.get(following, ())))
    return ()


def _node(units: Units, number: int) -> str:
    nodes = units.units[number].nodes
    return repr(nodes[0]) if nodes else "a node without a name"
