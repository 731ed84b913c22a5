"""The provisioner (paper section 6): compiles the parts of networks and loads them on devices.

Each part is compiled once for all of its copies. Copies are on devices of the same backend with as
many cores, so that all of them give the same bits, and that are kept from no operator which the
first one runs.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import count

from glow_nb.base.errors import (
    CompileError,
    DeviceError,
    GlowError,
    PartitionError,
    UnsupportedError,
)
from glow_nb.base.schema import closest, listed
from glow_nb.hlir.graph import Function
from glow_nb.runtime.deploy import compile_part
from glow_nb.runtime.hosting.dataflow import Dataflow
from glow_nb.runtime.hosting.hosted_device import Copy, HostedDevice, HostedPart
from glow_nb.runtime.hosting.open_plan import OpenPlan
from glow_nb.runtime.hosting.places import (
    Bundle,
    Places,
    choose_places,
    has_room,
    kinds_of,
    no_room,
    room_on,
    up,
)
from glow_nb.runtime.planning.partitioner import partition, runs_all_of
from glow_nb.runtime.planning.partitioning import Part, Partitioning

Plans = Mapping[int, Function | Partitioning]
"""A network by its batch size: a graph for any device, or parts with a device for each."""


class Provisioner:
    """Loads networks on devices and unloads them, one at a time."""

    def __init__(self, devices: Sequence[HostedDevice]) -> None:
        """Have nothing on *devices*."""
        self._devices = devices
        self._lock = threading.Lock()
        self._keys = count()
        self._rest: list[Copy] = []  # what has lost its device, and has found no other one

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
        bundles: list[Bundle] = []
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
            self._add(name, choose_places(name, bundles, self._devices, copies))
        return sorted(flows, key=lambda flow: flow.rows)

    def load_open(self, name: str, plan: OpenPlan, copies: int | None) -> list[Dataflow]:
        """Do what :meth:`load` does with a network for all sizes; return it for each batch size.

        Raises:
            UnsupportedError: Its code is not right for all rows.
            PartitionError: No device can take it whole.
        """
        bundle, is_able = self._compile_whole(name, {1: plan.function})
        if not is_able and has_room(bundle, self._devices):
            raise PartitionError(
                f"network {name!r}: no device runs all of its operators, and a network that is "
                "partitioned needs fixed sizes; load it with shapes="
            )
        if not is_able:
            raise no_room(name, bundle, self._devices)
        flows = plan.flows(name, bundle.parts[0])
        with self._lock:
            self._add(name, choose_places(name, [bundle], self._devices, copies))
        return flows

    def _compile_whole(self, name: str, functions: Mapping[int, Function]) -> tuple[Bundle, bool]:
        """Compile *functions* for the fastest devices that can take all of them.

        If none can, it is for the fastest ones, and False comes with it.
        """
        found: Bundle | None = None
        refusal: GlowError | None = None
        for like in kinds_of(self._devices):
            try:
                compiled = [compile_part(f, like.device.description) for f in functions.values()]
            except (CompileError, UnsupportedError) as error:  # another backend may do
                refusal = refusal or error
                continue
            parts = tuple(HostedPart(each, 0.0) for each in compiled)
            bundle = Bundle(parts, like, is_bound=False)
            if has_room(bundle, self._devices) and all(
                runs_all_of(function, like.device.description) for function in functions.values()
            ):
                return bundle, True
            found = found or bundle
        if found is None:
            raise refusal or DeviceError(f"network {name!r}: no device of the host is up")
        return found, False

    def _cut(
        self, name: str, functions: Mapping[int, Function], bundle: Bundle
    ) -> dict[int, Partitioning]:
        """Return plans over several devices of *functions*, which no device can take whole.

        Raises:
            PartitionError: All devices together cannot: says what is missing where, or which
                operators none of them runs.
        """
        devices = up(self._devices)
        free = {device.name: room_on(device) for device in devices}
        plans: dict[int, Partitioning] = {}
        for rows, function in functions.items():
            usable = [d.device.description for d in devices if free[d.name] > 0]
            limits = {device.name: free[device.name] for device in usable}
            if not usable:
                raise no_room(name, bundle, self._devices)
            try:
                plans[rows] = partition(function, usable, objective="throughput", limits=limits)
            except PartitionError as error:
                if has_room(bundle, self._devices):  # it is no lack of memory
                    raise
                raise no_room(name, bundle, self._devices) from error
            for part in plans[rows].parts:
                free[part.device] -= part.memory_bytes
        return plans

    def _compile_part(self, name: str, part: Part) -> Bundle:
        devices = {device.name: device for device in self._devices}
        device = devices.get(part.device)
        if device is None:
            raise PartitionError(
                f"network {name!r}: part {part.name!r} is planned for the device {part.device!r}"
                f"{closest(part.device, devices)}; the host has {listed(devices)}"
            )
        hosted = HostedPart(compile_part(part, device.device.description), part.seconds)
        return Bundle((hosted,), device, is_bound=True)

    def _add(self, name: str, places: Places) -> None:
        """Load each bundle of *places* on its device: all of them, or none."""
        has_state = any(p.deployable.program.state for bundle, _ in places for p in bundle.parts)
        added: list[Copy] = []
        try:
            for bundle, device in places:
                for part in bundle.parts:
                    key = f"{name}:{part.deployable.name}:{next(self._keys)}"
                    with device.border:
                        device.device.add(key, part.deployable)
                    added.append(Copy(part, device, key, name, has_state))
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
            parts = [part for flow in flows for part in flow.parts]
            self._rest = [copy for copy in self._rest if copy.part not in parts]
            for part in parts:
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
                with device.border:
                    device.device.add(copy.key, copy.part.deployable)

    def move(self, device: HostedDevice) -> None:
        """Take from *device*, which is away, what was on it, and load that on others with room.

        A network that has state is not loaded: its state is lost, so that it can answer nothing.
        """
        with self._lock:
            copies, device.copies = device.copies, []
            for copy in copies:
                copy.part.copies = tuple(c for c in copy.part.copies if c is not copy)
            self._rest += [copy for copy in copies if not copy.has_state]
            self._place_rest()

    def place_rest(self) -> bool:
        """Load what is on no device where there is room by now; return whether nothing is left."""
        with self._lock:
            self._place_rest()
            return not self._rest

    def _place_rest(self) -> None:
        for copy in list(self._rest):
            bundle = Bundle((copy.part,), copy.device, is_bound=False)
            with suppress(GlowError):  # the host tells which network is left without a copy
                self._add(copy.network, choose_places(copy.network, [bundle], self._devices, 1))
                self._rest.remove(copy)


def _flows_of(name: str, functions: Mapping[int, Function], bundle: Bundle) -> list[Dataflow]:
    """Return *functions*, each of which is one part of *bundle*."""
    flows = []
    for (rows, function), part in zip(functions.items(), bundle.parts, strict=True):
        inputs = [(value.name, value.type) for value in function.inputs]
        outputs = [(value.name, value.type) for value in function.outputs]
        counted = {value.name: value.counted for value in function.outputs if value.counted}
        flows.append(Dataflow(name, inputs, outputs, [part], rows, counted))
    return flows


def _evict(copy: Copy) -> None:
    with suppress(GlowError), copy.device.border:  # a dead device holds nothing
        copy.device.device.evict(copy.key)
