"""The partitioner (paper section 6): cuts a network into parts and chooses a device for each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from glow_nb.backends import Backend
from glow_nb.base.arguments import described, whole_number
from glow_nb.base.errors import OptionError, PartitionError, UnsupportedError
from glow_nb.base.schema import closest, listed
from glow_nb.fuse.check_traits import check_traits
from glow_nb.hlir.given_function import given_function
from glow_nb.hlir.graph import NODES, Function
from glow_nb.hlir.kept_names import require_kept
from glow_nb.hlir.ops import Transpose
from glow_nb.hlir.with_sizes import with_sizes
from glow_nb.llir.program import Instruction
from glow_nb.llir.stack import members_of
from glow_nb.network.compilation import lower_for
from glow_nb.network.profile import Profile
from glow_nb.runtime.deploy import backend_of
from glow_nb.runtime.devices.device_description import UNSUPPORTED, DeviceDescription
from glow_nb.runtime.planning.assignment import Assignment, assigned_devices
from glow_nb.runtime.planning.bounds import unit_bytes
from glow_nb.runtime.planning.cuts import most_units, neighbours
from glow_nb.runtime.planning.efficiency import UNMEASURED, efficiencies
from glow_nb.runtime.planning.fleet import Fleet, fleet_of
from glow_nb.runtime.planning.partitioning import Partitioning
from glow_nb.runtime.planning.planner import Planner
from glow_nb.runtime.planning.split import stacked_program
from glow_nb.runtime.planning.timing import VALUES, Objective
from glow_nb.runtime.planning.units import Units, units_of


def partition(
    function: Function,
    devices: Sequence[DeviceDescription],
    *,
    objective: Objective = "latency",
    limits: Mapping[str, int] | None = None,
    assignment: Assignment | None = None,
    profile: Profile | None = None,
) -> Partitioning:
    """Return a plan that runs *function* on *devices*, or on some of them.

    The network is optimized, lowered and divided into kernels once, as a whole, for the fastest
    device whose backend has kernels: cuts lie between kernels, and change no result. Operators
    listed in ``options["unsupported"]`` of a description are kept off that device, by the names
    that they have in the model or in the lowered graph.

    Args:
        function: The network, not lowered.
        devices: Where it may run; each name once.
        objective: ``"latency"`` minimizes the time of one request, ``"throughput"`` the time
            between requests that overlap, and ``"memory"`` the memory of the fullest device.
        limits: For some devices by name, how many bytes of their memory may be used.
        assignment: Devices of some nodes, by name or pattern; each device has one part, of its
            assigned nodes.
        profile: The result of ``net.profile(feeds)`` for the same network, compiled for as many
            threads as the fastest device has cores: on all devices, each kernel is assumed to have
            the same ratio to its roofline limit. By default kernels reach their limits.

    Raises:
        OptionError: An argument has no meaning, sizes are open, or devices differ in precision.
        PartitionError: The network does not fit, or an assignment is impossible; says which device
            lacks what.
        PassError, UnsupportedError: As :func:`glow_nb.compile`.
    """
    devices = _checked_devices(devices)
    if not isinstance(objective, str) or objective not in VALUES:
        raise OptionError(f"objective={described(objective)}: give one of {', '.join(VALUES)}")
    named = {device.name: device for device in devices}
    rooms = _checked_limits(limits or {}, named)
    function = given_function(function)
    _require_numbers(function)
    _require_one_precision(devices)
    backend = _lowering_backend(devices)
    require_kept([function], backend.keep)
    lowered = lower_for(function, backend)
    known = UNMEASURED if profile is None else efficiencies(profile)
    program = stacked_program(lowered, backend)
    known.require_known(program.work)
    units = units_of(program, backend.traits, known)
    assigned = assigned_devices(units, assignment or {}, named)
    barred = _barred(units, function, devices, backend)
    for unit, device in assigned.items():
        for other in named:
            barred[other][unit] |= other != device
    fleet = fleet_of(units, devices, rooms, barred)
    _refuse_unsupported(fleet)
    if len(units.units) > most_units(len(devices)):
        planner = Planner(_merged(fleet), objective, whole=fleet)
    else:
        planner = Planner(fleet, objective)
    plan = planner.best()
    if plan is None:
        raise PartitionError(_what_is_missing(fleet, assigned))
    return plan


def runs_all_of(function: Function, device: DeviceDescription) -> bool:
    """Return whether *device* may run all operators of *function*, which is not lowered."""
    if not device.unsupported:
        return True
    function = with_sizes(function, {symbol.name: symbol.hint for symbol in function.sizes})
    backend = backend_of(device)
    units = units_of(stacked_program(lower_for(function, backend), backend), backend.traits)
    return not any(_barred(units, function, [device], backend)[device.name])


def _require_numbers(function: Function) -> None:
    """Raise OptionError if sizes of *function* are open: a plan weighs bytes and seconds."""
    if function.sizes:
        raise OptionError(
            f"function {function.name!r}: its sizes {listed(s.name for s in function.sizes)} are "
            "open, and a plan is made for numbers; give them, glow_nb.load(function, "
            f"shapes={{{function.sizes[0].name!r}: 1}}), or on the command line "
            f"--shape {function.sizes[0].name}=1"
        )


def _require_one_precision(devices: Sequence[DeviceDescription]) -> None:
    """Raise OptionError if *devices* differ in precision: a network is lowered once for all."""
    first, *others = devices
    for other in others:
        if (other.precision, other.keep) != (first.precision, first.keep):
            raise OptionError(
                f"device {first.name!r} has precision={first.precision!r}, "
                f"keep={sorted(first.keep)}, device {other.name!r} precision={other.precision!r}, "
                f"keep={sorted(other.keep)}: a network is cut after its precision is lowered; give "
                "the same to all devices that it may run on"
            )


def _checked_devices(devices: Sequence[DeviceDescription]) -> list[DeviceDescription]:
    found = list(devices) if isinstance(devices, Iterable) else [devices]
    for device in found:
        if not isinstance(device, DeviceDescription):
            raise OptionError(f"devices: {described(device)} is no DeviceDescription")
    names = [device.name for device in found]
    twice = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    if not found or twice:
        problem = f"several are called {twice}" if twice else "there is none"
        raise OptionError(f"devices: {problem}; give at least one, each with its own name")
    return found


def _checked_limits(
    limits: Mapping[str, int], devices: Mapping[str, DeviceDescription]
) -> dict[str, int]:
    for name in limits:
        if name not in devices:
            raise OptionError(
                f"limits: there is no device {name!r}{closest(str(name), devices)}; "
                f"there are {', '.join(devices)}"
            )
    return {name: whole_number(f"limits[{name!r}]", size, 0) for name, size in limits.items()}


def _lowering_backend(devices: Sequence[DeviceDescription]) -> Backend:
    """Return the backend of the fastest device that has kernels, or of the fastest device."""
    fastest = sorted(devices, key=lambda device: -device.multiply_adds_per_second)
    backends = [backend_of(device) for device in fastest]
    return next((backend for backend in backends if backend.kernels), backends[0])


def _barred(
    units: Units, function: Function, devices: Sequence[DeviceDescription], backend: Backend
) -> dict[str, list[bool]]:
    """Return for each device which units it cannot run: by its backend, or by its options."""
    opcodes = _opcodes_by_name(function)
    operators = [
        unit.operators.union(*(opcodes.get(node, ()) for node in unit.nodes))
        for unit in units.units
    ]
    work = units.program.work
    runs: dict[str, list[bool]] = {}
    barred = {}
    for device in devices:
        _check_operators(device)
        if device.backend not in runs:
            other = backend_of(device)
            runs[device.backend] = [
                all(_can_run(other, backend, work[number]) for number in unit.instructions)
                for unit in units.units
            ]
        barred[device.name] = [
            not can or bool(device.unsupported & found)
            for can, found in zip(runs[device.backend], operators, strict=True)
        ]
    return barred


def _opcodes_by_name(function: Function) -> dict[str, set[str]]:
    """Return the operators of each node of the model, by its name there.

    Transposes count where there is nothing else: importers put them around what they import.
    """
    found: dict[str, set[str]] = {}
    for node in function.nodes:
        for name in function.origins_of(node):
            found.setdefault(name, set()).add(node.opcode)
    return {name: opcodes - {Transpose.opcode} or opcodes for name, opcodes in found.items()}


def _check_operators(device: DeviceDescription) -> None:
    for name in sorted(device.unsupported):
        if name not in NODES:
            raise OptionError(
                f"device {device.name!r}: {UNSUPPORTED}: there is no operator {name!r:.80}"
                f"{closest(name, NODES)}; glow_nb.hlir.ops has all of them"
            )


def _can_run(other: Backend, backend: Backend, instruction: Instruction) -> bool:
    """Return whether *other* has kernels for *instruction*, which the traits of *backend* allowed.

    A backend without kernels, as the interpreter, knows what every operator means.
    """
    if other.name == backend.name or not other.kernels:
        return True
    if any(other.kernels.maker_of(type(member)) is None for member in members_of(instruction)):
        return False
    try:
        check_traits(instruction, other.traits)
    except UnsupportedError:
        return False
    return True


def _refuse_unsupported(fleet: Fleet) -> None:
    nowhere = np.array([kind.barred for kind in fleet.kinds]).all(axis=0)
    units = [fleet.units.units[number] for number in np.flatnonzero(nowhere)]
    if units:
        firsts = dict.fromkeys(unit.nodes[0] for unit in units if unit.nodes)
        names = ", ".join(map(repr, list(firsts)[:3]))
        operators = sorted({operator for unit in units for operator in unit.operators})
        raise PartitionError(
            f"{fleet.units.program.name!r}: no device runs {names}, made of "
            f"{', '.join(operators)}, given its backend, its unsupported operators and the nodes "
            "assigned to it; add a device that does"
        )


def _merged(fleet: Fleet) -> Fleet:
    """Return *fleet* with neighbouring units merged, so that a search over them takes seconds."""
    units = fleet.units
    least = fleet.seconds.min(axis=0)
    kept = np.zeros(len(least))
    for buffer, users in units.kept.items():
        kept[users[0]] += buffer.type.size_bytes
    weights = least / max(least.sum(), 1e-30) + kept / max(kept.sum(), 1)
    return fleet.merged(neighbours(units, most_units(len(fleet.devices)), weights.tolist()))


def _what_is_missing(fleet: Fleet, assigned: Mapping[int, str]) -> str:
    """Return why no plan was found: what is needed, and what the devices have."""
    name = repr(fleet.units.program.name)
    kept = sum(buffer.type.size_bytes for buffer in fleet.units.kept)
    rooms = {d.name: kind.memory_bytes for kind in fleet.kinds for d in kind.devices}
    have = ", ".join(f"{device} {room}" for device, room in rooms.items())
    total = sum(rooms.values())
    if kept > total:
        return (
            f"{name}: its weights and states are {kept} bytes, the devices hold {total} bytes "
            f"({have}): {kept - total} bytes are missing; add a device or give one more memory"
        )
    sizes = unit_bytes(fleet)
    largest = int(sizes.argmax())
    node = next(iter(fleet.units.units[largest].nodes), "a kernel")
    if sizes[largest] > max(rooms.values()):
        return (
            f"{name}: {node!r} needs {int(sizes[largest])} bytes, the devices hold {have} bytes: "
            f"none can have it; give one {int(sizes[largest])} bytes"
        )
    fixed = " with what is assigned" if assigned else ""
    return (
        f"{name}: no placement was found{fixed}: its weights and states are {kept} bytes, "
        f"its largest kernel {node!r} needs {int(sizes[largest])}, the devices hold {have} bytes; "
        "add a device or give one more memory"
    )
