"""The provisioner (paper section 6): compiles the parts of networks and loads them on devices.

Each part is compiled once for all of its copies. Copies are on devices of the same backend with as
many cores, so that all of them give the same bits, and that are kept from no operator which the
first one runs.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count

from glow_nb.errors import CompileError, DeviceError, GlowError, PartitionError, UnsupportedError
from glow_nb.hlir.graph import Function
from glow_nb.runtime.deploy import compile_part
from glow_nb.runtime.hosting.dataflow import Copy, Dataflow, HostedPart
from glow_nb.runtime.hosting.hosted_device import HostedDevice
from glow_nb.runtime.planning.partitioner import partition, runs_all_of
from glow_nb.runtime.planning.partitioning import Part, Partitioning
from glow_nb.schema import closest

Plans = Mapping[int, Function | Partitioning]
"""A network by its batch size: a graph for any device, or parts with a device for each."""

_Places = list[tuple["_Bundle", HostedDevice]]


@dataclass(frozen=True, eq=False)
class _Bundle:
    """Parts that go on a device together: one, or a whole network at all batch sizes.

    Attributes:
        parts: The parts.
        like: The device that they were compiled for; those of its backend and cores will do.
        is_bound: Whether the first copy must be on that very device.
    """

    parts: tuple[HostedPart, ...]
    like: HostedDevice
    is_bound: bool

    @property
    def memory_bytes(self) -> int:
        return sum(part.deployable.memory_bytes for part in self.parts)

    def is_on(self, device: HostedDevice) -> bool:
        return any(copy.part in self.parts for copy in device.copies)


class Provisioner:
    """Loads networks on devices and unloads them, one at a time."""

    def __init__(self, devices: Sequence[HostedDevice]) -> None:
        """Have nothing on *devices*."""
        self._devices = devices
        self._lock = threading.Lock()
        self._keys = count()

    def load(self, name: str, plans: Plans, copies: int | None) -> list[Dataflow]:
        """Compile *plans* and load them so often; return a dataflow for each.

        Without a number of *copies* there is one, and one more as long as devices that hold nothing
        can take all of it. When anything fails, what had been loaded is evicted.

        Raises:
            PartitionError: It does not fit: says what is missing where.
            DeviceError, MemoryLimitError: A device died, or cannot hold what it said it could.
            CompileError, UnsupportedError, PassError: It cannot be compiled.
        """
        whole = {rows: plan for rows, plan in plans.items() if isinstance(plan, Function)}
        bundles: list[_Bundle] = []
        flows: list[Dataflow] = []
        if whole:
            bundle, is_able = self._compile_whole(name, whole)
            if is_able:
                bundles.append(bundle)
                flows += _flows_of(name, whole, bundle)
            else:
                plans = {**plans, **self._cut(name, whole, bundle)}
        for rows, plan in plans.items():
            if isinstance(plan, Partitioning):
                compiled = [self._compile_part(name, part) for part in plan.parts]
                bundles.extend(compiled)
                parts = [part for bundle in compiled for part in bundle.parts]
                flows.append(Dataflow(name, plan.inputs, plan.outputs, parts, rows, plan.counted))
        with self._lock:
            self._add(name, self._place(name, bundles, copies))
        return sorted(flows, key=lambda flow: flow.rows)

    def _compile_whole(self, name: str, functions: Mapping[int, Function]) -> tuple[_Bundle, bool]:
        """Compile *functions* for the fastest devices that can take all of them.

        If none can, it is for the fastest ones, and False comes with it.
        """
        found: _Bundle | None = None
        refusal: GlowError | None = None
        for like in self._kinds():
            try:
                compiled = [compile_part(f, like.device.description) for f in functions.values()]
            except (CompileError, UnsupportedError) as error:  # another backend may do
                refusal = refusal or error
                continue
            parts = tuple(HostedPart(each, 0.0) for each in compiled)
            bundle = _Bundle(parts, like, is_bound=False)
            if self._has_room(bundle) and all(
                runs_all_of(function, like.device.description) for function in functions.values()
            ):
                return bundle, True
            found = found or bundle
        if found is None:
            raise refusal or DeviceError(f"network {name!r}: no device of the host is up")
        return found, False

    def _has_room(self, bundle: _Bundle) -> bool:
        devices = self._alike(bundle.like)
        return any(d.device.memory_free_bytes >= bundle.memory_bytes for d in devices)

    def _cut(
        self, name: str, functions: Mapping[int, Function], bundle: _Bundle
    ) -> dict[int, Partitioning]:
        """Return plans over several devices of *functions*, which no device can take whole.

        Raises:
            PartitionError: All devices together cannot: says what is missing where, or which
                operators none of them runs.
        """
        devices = list(self._up())
        free = {device.name: device.device.memory_free_bytes for device in devices}
        plans: dict[int, Partitioning] = {}
        for rows, function in functions.items():
            usable = [d.device.description for d in devices if free[d.name] > 0]
            limits = {device.name: free[device.name] for device in usable}
            if not usable:
                raise _no_room(name, bundle, self._devices)
            try:
                plans[rows] = partition(function, usable, objective="throughput", limits=limits)
            except PartitionError as error:
                if self._has_room(bundle):  # it is no lack of memory
                    raise
                raise _no_room(name, bundle, self._devices) from error
            for part in plans[rows].parts:
                free[part.device] -= part.memory_bytes
        return plans

    def _compile_part(self, name: str, part: Part) -> _Bundle:
        devices = {device.name: device for device in self._devices}
        device = devices.get(part.device)
        if device is None:
            raise PartitionError(
                f"network {name!r}: part {part.name!r} is planned for the device {part.device!r}"
                f"{closest(part.device, devices)}; the host has {list(devices)}"
            )
        hosted = HostedPart(compile_part(part, device.device.description), part.seconds)
        return _Bundle((hosted,), device, is_bound=True)

    def _kinds(self) -> list[HostedDevice]:
        """Return one of the devices that run the same in the same way, the fastest kind first."""
        kinds: dict[object, HostedDevice] = {}
        for device in sorted(self._up(), key=lambda d: -_speed(d)):
            kinds.setdefault((_kind(device), device.device.description.unsupported), device)
        return list(kinds.values())

    def _up(self) -> Iterator[HostedDevice]:
        return (device for device in self._devices if device.is_up)

    def _alike(self, like: HostedDevice) -> Iterator[HostedDevice]:
        """Yield the devices that run what is compiled for *like*."""
        return (d for d in self._up() if _kind(d) == _kind(like) and not _barred(d, like))

    def _place(self, name: str, bundles: Sequence[_Bundle], copies: int | None) -> _Places:
        """Return a device for each copy of each bundle; raise PartitionError if there is none."""
        room = _Room({device: device.device.memory_free_bytes for device in self._up()})
        bundles = sorted(bundles, key=lambda b: (not b.is_bound, -b.memory_bytes))
        for bundle in bundles:
            candidates = [bundle.like] if bundle.is_bound else list(self._alike(bundle.like))
            if not room.take(bundle, candidates):
                raise _no_room(name, bundle, candidates, room.free)
        for number in count(2):
            if copies is not None and number > copies:
                break
            before = list(room.places)
            for bundle in bundles:
                candidates = [d for d in self._alike(bundle.like) if copies or room.is_empty(d)]
                if room.take(bundle, candidates):
                    continue
                if copies is None:
                    return before
                raise _no_room(name, bundle, self._devices, room.free, copy=number)
        return room.places

    def _add(self, name: str, places: _Places) -> None:
        """Load each bundle of *places* on its device: all of them, or none."""
        added: list[Copy] = []
        try:
            for bundle, device in places:
                for part in bundle.parts:
                    key = f"{name}:{part.deployable.name}:{next(self._keys)}"
                    device.device.add(key, part.deployable)
                    added.append(Copy(part, device, key))
        except BaseException:
            for copy in added:
                _evict(copy)
            raise
        for copy in added:
            copy.part.copies += (copy,)
            copy.device.copies.append(copy)

    def unload(self, flows: Sequence[Dataflow]) -> None:
        """Evict *flows* from all devices; what has been evicted before stays so."""
        with self._lock:
            for part in [part for flow in flows for part in flow.parts]:
                copies, part.copies = part.copies, ()
                for copy in copies:
                    copy.device.copies.remove(copy)
                    _evict(copy)

    def refill(self, device: HostedDevice) -> None:
        """Load on *device*, which has been restarted, what is to be there.

        Raises:
            DeviceError: It has died again.
            MemoryLimitError: It has less memory than before.
        """
        with self._lock:
            for copy in device.copies:
                device.device.add(copy.key, copy.part.deployable)

    def move(self, device: HostedDevice) -> None:
        """Load what was on *device*, which will not come back, on others as far as they can."""
        with self._lock:
            copies, device.copies = device.copies, []
            for copy in copies:
                copy.part.copies = tuple(c for c in copy.part.copies if c is not copy)
                try:
                    bundle = _Bundle((copy.part,), device, is_bound=False)
                    self._add(copy.key, self._place(copy.key, [bundle], 1))
                except GlowError:  # the host tells who is left without a copy
                    continue


class _Room:
    """Memory that is left while places are chosen."""

    def __init__(self, free: dict[HostedDevice, int]) -> None:
        """Begin with nothing chosen."""
        self.free = free
        self.places: _Places = []

    def is_empty(self, device: HostedDevice) -> bool:
        """Whether nothing is, or is to be, on *device*."""
        return not device.copies and all(taken is not device for _, taken in self.places)

    def take(self, bundle: _Bundle, candidates: Sequence[HostedDevice]) -> bool:
        """Choose the device with the least on it that can take *bundle*; False if none can."""
        able = [
            device
            for device in candidates
            if self.free.get(device, -1) >= bundle.memory_bytes
            and not bundle.is_on(device)
            and (bundle, device) not in self.places
        ]
        if not able:
            return False
        best = min(able, key=lambda device: (self._held(device), -self.free[device]))
        self.free[best] -= bundle.memory_bytes
        self.places.append((bundle, best))
        return True

    def _held(self, device: HostedDevice) -> float:
        """Return how many parts a device holds, for its speed."""
        chosen = sum(taken is device for _, taken in self.places)
        return (len(device.copies) + chosen + 1) / _speed(device)


def _flows_of(name: str, functions: Mapping[int, Function], bundle: _Bundle) -> list[Dataflow]:
    """Return *functions*, each of which is one part of *bundle*."""
    flows = []
    for (rows, function), part in zip(functions.items(), bundle.parts, strict=True):
        inputs = [(value.name, value.type) for value in function.inputs]
        outputs = [(value.name, value.type) for value in function.outputs]
        counted = {value.name: value.counted for value in function.outputs if value.counted}
        flows.append(Dataflow(name, inputs, outputs, [part], rows, counted))
    return flows


def _kind(device: HostedDevice) -> tuple[str, int]:
    return device.device.description.backend, device.device.description.cores


def _barred(device: HostedDevice, like: HostedDevice) -> frozenset[str]:
    """Return the operators that *device* is kept from, and *like* is not."""
    return device.device.description.unsupported - like.device.description.unsupported


def _speed(device: HostedDevice) -> float:
    return device.device.description.multiply_adds_per_second


def _evict(copy: Copy) -> None:
    with suppress(GlowError):  # a dead device holds nothing
        copy.device.device.evict(copy.key)


def _no_room(
    name: str,
    bundle: _Bundle,
    devices: Sequence[HostedDevice],
    free: Mapping[HostedDevice, int] | None = None,
    copy: int = 1,
) -> PartitionError:
    """Return the error that says what is missing on each of *devices*."""
    needed = bundle.memory_bytes
    constants = sum(part.deployable.constant_bytes for part in bundle.parts)
    lines = [_shortage(device, bundle, needed, free) for device in devices]
    number = "" if copy == 1 else f", copy {copy},"
    return PartitionError(
        f"network {name!r}: {bundle.parts[0].deployable.name!r}{number} needs {needed} bytes "
        f"({constants} of constants, {needed - constants} for runs) on a device of the backend "
        f"{bundle.like.device.description.backend!r} with "
        f"{bundle.like.device.description.cores} core(s), and none has them: "
        f"{'; '.join(lines) or 'there is no other'}; remove a network, ask for fewer duplicates, "
        "or give a partitioning over several devices"
    )


def _shortage(
    device: HostedDevice,
    bundle: _Bundle,
    needed: int,
    free: Mapping[HostedDevice, int] | None,
) -> str:
    if not device.is_up:
        return f"{device.name!r} is down"
    if _kind(device) != _kind(bundle.like):
        backend, cores = _kind(device)
        return f"{device.name!r} is of backend {backend!r} with {cores} core(s)"
    if barred := _barred(device, bundle.like):
        return f"{device.name!r} is not to run {', '.join(sorted(barred))} (unsupported)"
    # a device that has come back meanwhile is not among those that were looked at
    left = device.device.memory_free_bytes if free is None else free.get(device, 0)
    if left >= needed:
        return f"{device.name!r} holds a copy"
    limit = device.device.description.memory_bytes
    return f"{device.name!r} has {left} of {limit} bytes free, {needed - left} are missing"
