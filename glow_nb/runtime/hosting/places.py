"""Places: which devices get the copies of a network, by what they run and by their free memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count

from glow_nb.base.errors import GlowError, PartitionError
from glow_nb.runtime.hosting.hosted_device import HostedDevice, HostedPart


@dataclass(frozen=True, eq=False)
class Bundle:
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
        """The memory that a device needs for it."""
        return sum(part.deployable.memory_bytes for part in self.parts)

    def is_on(self, device: HostedDevice) -> bool:
        """Return whether *device* has a copy of it."""
        return any(copy.part in self.parts for copy in device.copies)


Places = list[tuple[Bundle, HostedDevice]]
"""Bundles, each with the device of one of its copies."""


def kinds_of(devices: Sequence[HostedDevice]) -> list[HostedDevice]:
    """Return one of the *devices* that run the same alike, the fastest kind first."""
    kinds: dict[object, HostedDevice] = {}
    for device in sorted(up(devices), key=lambda d: -_speed(d)):
        kinds.setdefault((_kind(device), device.device.description.unsupported), device)
    return list(kinds.values())


def up(devices: Sequence[HostedDevice]) -> list[HostedDevice]:
    """Return those of *devices* that take runs."""
    return [device for device in devices if device.is_up]


def alike(devices: Sequence[HostedDevice], like: HostedDevice) -> list[HostedDevice]:
    """Return those of *devices* that run what is compiled for *like*."""
    return [d for d in up(devices) if _kind(d) == _kind(like) and not _barred(d, like)]


def room_on(device: HostedDevice) -> int:
    """Return the bytes that are free on *device*; one that cannot say that has no room."""
    try:
        return device.free_bytes
    except GlowError:
        return 0


def has_room(bundle: Bundle, devices: Sequence[HostedDevice]) -> bool:
    """Return whether one of *devices* has memory for *bundle*, and runs it."""
    able = alike(devices, bundle.like)
    return any(room_on(device) >= bundle.memory_bytes for device in able)


def choose_places(
    name: str, bundles: Sequence[Bundle], devices: Sequence[HostedDevice], copies: int | None
) -> Places:
    """Return a device for each copy of each of *bundles*; raise PartitionError if there is none.

    Without a number of *copies* there is one, and one more as long as devices that hold nothing can
    take all of it.
    """
    room = _Room({device: room_on(device) for device in up(devices)})
    bundles = sorted(bundles, key=lambda b: (not b.is_bound, -b.memory_bytes))
    for bundle in bundles:
        candidates = [bundle.like] if bundle.is_bound else alike(devices, bundle.like)
        if not room.take(bundle, candidates):
            raise no_room(name, bundle, candidates, room.free)
    for number in count(2):
        if copies is not None and number > copies:
            break
        before = list(room.places)
        for bundle in bundles:
            candidates = [d for d in alike(devices, bundle.like) if copies or room.is_empty(d)]
            if room.take(bundle, candidates):
                continue
            if copies is None:
                return before
            raise no_room(name, bundle, devices, room.free, copy=number)
    return room.places


class _Room:
    """Memory that is left while places are chosen."""

    def __init__(self, free: dict[HostedDevice, int]) -> None:
        """Begin with nothing chosen."""
        self.free = free
        self.places: Places = []

    def is_empty(self, device: HostedDevice) -> bool:
        """Return whether nothing is, or is to be, on *device*."""
        return not device.copies and all(taken is not device for _, taken in self.places)

    def take(self, bundle: Bundle, candidates: Sequence[HostedDevice]) -> bool:
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


def _kind(device: HostedDevice) -> tuple[str, int]:
    return device.device.description.backend, device.device.description.cores


def _barred(device: HostedDevice, like: HostedDevice) -> frozenset[str]:
    """Return the operators that *device* is kept from, and *like* is not."""
    return device.device.description.unsupported - like.device.description.unsupported


def _speed(device: HostedDevice) -> float:
    return device.device.description.multiply_adds_per_second


def no_room(
    name: str,
    bundle: Bundle,
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
    bundle: Bundle,
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
    try:
        free_now = device.free_bytes
    except GlowError as error:
        return f"{device.name!r} cannot say how much memory is free ({error})"
    # a device that has come back meanwhile is not among those that were looked at
    left = free_now if free is None else free.get(device, 0)
    if left >= needed:
        return f"{device.name!r} holds a copy"
    limit = device.device.description.memory_bytes
    return f"{device.name!r} has {left} of {limit} bytes free, {needed - left} are missing"
