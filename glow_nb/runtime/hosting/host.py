"""The host manager (paper section 6): networks by name on devices, and requests to them."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Self

from glow_nb.base.arguments import as_integer, described, seconds, whole_number
from glow_nb.base.errors import (
    DeadlineError,
    OptionError,
    RefusedError,
)
from glow_nb.base.feeds import Feeds
from glow_nb.base.schema import closest
from glow_nb.base.types import Array
from glow_nb.base.uncopied import Uncopied
from glow_nb.runtime.devices.device import Device, Health
from glow_nb.runtime.devices.device_description import DeviceDescription
from glow_nb.runtime.hosting.dispatcher import Dispatcher
from glow_nb.runtime.hosting.hosted_device import HostedDevice, open_all
from glow_nb.runtime.hosting.loading import batches_that_agree, load_network
from glow_nb.runtime.hosting.network_info import NetworkInfo, info_of
from glow_nb.runtime.hosting.network_source import Servable
from glow_nb.runtime.hosting.provisioner import Provisioner
from glow_nb.runtime.hosting.recovery import Recovery
from glow_nb.runtime.hosting.request import Request
from glow_nb.runtime.hosting.schedule import Schedule
from glow_nb.runtime.hosting.served_network import ServedNetwork
from glow_nb.runtime.hosting.statistics import Statistics
from glow_nb.runtime.hosting.tracer import Tracer

GRACE_SECONDS = 1.0
"""How long a device may continue a run after its deadline before it is killed."""


class HostManager(Uncopied):
    """Networks on devices, and requests to them from any number of threads.

    Example::

        with HostManager([DeviceDescription("a"), DeviceDescription("b")]) as host:
            host.add_network("classify", "resnet50.onnx", duplicates=2)
            outputs = host.run("classify", {"data": image})
            request = host.submit("classify", {"data": image}, deadline=0.5)
            outputs = request.result()          # or: await request

    Requests of a higher priority go first; among networks whose requests have the same priority,
    the network that has used the least device time goes first. A device that dies is restarted, as
    often as needed, and gets its networks back, or its networks move to other devices. Its runs are
    repeated, since they have no side effects. A network with state is the exception: it runs its
    requests one by one, has one copy, and is lost with its device.
    """

    UNCOPIED = (
        "a host manager cannot be copied or pickled, its devices and threads belong to this "
        "process; share it (any thread may call it), or make another one of descriptions of devices"
    )

    def __init__(
        self,
        devices: Sequence[Device | DeviceDescription],
        *,
        max_queued: int = 1000,
        grace: float = GRACE_SECONDS,
        tracer: Tracer | None = None,
    ) -> None:
        """Open the *devices* that are descriptions; open devices are used, and stay open
        afterwards.

        Args:
            devices: One or more, with names of their own.
            max_queued: The largest number of waiting requests to each network; further ones are
                refused.
            grace: A device that has not ended a run this number of seconds after its deadline is
                killed.
            tracer: Records events of the host.

        Raises:
            OptionError: Two devices have the same name, there is none, or a number has no meaning.
            DeviceError: A device does not open.
        """
        self._max_queued = whole_number("max_queued", max_queued, 1)
        grace = seconds("grace", grace)
        self._own, opened = open_all(devices)
        self._devices = [HostedDevice(device) for device in opened]
        self._schedule = Schedule(self._devices, tracer)
        self._provisioner = Provisioner(self._devices)
        self._dispatcher = Dispatcher(self._schedule, self._recover, grace=grace)
        self._recovery = Recovery(self._provisioner, self._dispatcher)
        self._changing = threading.Lock()  # guards the two that follow
        self._adding: dict[str, object] = {}
        self._is_closed = self._has_ended = False
        try:
            self._dispatcher.start()
        except BaseException:
            for own in self._own:
                own.close()
            raise

    def _recover(self, device: HostedDevice) -> None:
        self._recovery.begin(device)

    def add_network(
        self,
        name: str,
        network: Servable,
        *,
        duplicates: int | None = 1,
        max_batch: int = 1,
        max_delay: float = 0.0,
        priority: int = 0,
    ) -> None:
        """Compile *network* and load it on devices; return when it is ready for requests to *name*.

        Args:
            name: Its name in requests.
            network: A model, as for ``glow_nb.load``, or one that leaves sizes open; a plan, which
                says for each part on which device its first copy is; or a function from batch size
                to one of these.
            duplicates: The number of duplicates, on different devices of the same backend with the
                same number of cores. None: one on each empty device that can hold all of it.
            max_batch: The largest number of rows of requests that run together. The network must
                have an open leading dimension, or be a function of the batch size, which is
                compiled for the powers of two up to that. A network with open sizes has one
                program: requests are joined to exactly their rows if their other sizes are the
                same. Random rows are run first: if the result of a row depends on other rows, that
                is an error; batch sizes whose results differ in any bit from those of the largest
                one are left out. So an answer never depends on the other requests of a batch.
            max_delay: Seconds that a batch that is not full waits for more rows, although a device
                is free. Requests that arrive while all devices are busy run together in any case.
            priority: Added to the priority of each request.

        Raises:
            OptionError: A network has this name, a number has no meaning, or the network cannot be
                batched or duplicated.
            PartitionError: It does not fit on the devices; says which device lacks what.
            DeviceError: A device died meanwhile.
            RefusedError: The host is closed.
            GlowError: It cannot be read or compiled.
        """
        priority = _number("priority", priority)
        if duplicates is not None:
            duplicates = whole_number("duplicates", duplicates, 1)
        max_batch, max_delay = (
            whole_number("max_batch", max_batch, 1),
            seconds("max_delay", max_delay),
        )
        with self._reserved(name):
            loaded = load_network(self._provisioner, name, network, max_batch, duplicates)
            try:
                flows = batches_that_agree(name, loaded) if max_batch > 1 else loaded
                served = ServedNetwork(
                    name, flows, max_queued=self._max_queued, max_delay=max_delay, priority=priority
                )
                self._publish(served)
            except BaseException:
                self._provisioner.unload(loaded)
                raise
            used = {part for flow in flows for part in flow.parts}
            self._provisioner.unload([flow for flow in loaded if used.isdisjoint(flow.parts)])

    @contextmanager
    def _reserved(self, name: str) -> Iterator[None]:
        """Reserve the name, so that no other thread adds a network of this name meanwhile."""
        if not isinstance(name, str) or not name:
            raise OptionError(f"name={described(name)}: give a text that is not empty")
        token = object()  # an interrupt may come at any place below
        try:
            with self._changing:
                self._require_open()
                if name in self._schedule.networks or name in self._adding:
                    raise OptionError(
                        f"network {name!r}: the host has one of this name; remove it, or give this "
                        "one another name"
                    )
                self._adding[name] = token
            yield
        finally:
            if self._adding.get(name) is token:
                del self._adding[name]

    def _publish(self, network: ServedNetwork) -> None:
        with self._changing:
            self._require_open()
            self._dispatcher.add(network)

    def _require_open(self) -> None:
        if self._is_closed:
            raise RefusedError("the host is closed; make another one")

    def remove_network(self, name: str) -> None:
        """Refuse new requests to *name*, wait until the earlier ones are answered, and unload it.

        Raises:
            OptionError: There is no network of this name.
        """
        network = self._network(name)
        self._dispatcher.drain([network], f"network {name!r}: it is being removed")
        self._provisioner.unload(network.flows)

    def networks(self) -> Mapping[str, NetworkInfo]:
        """Return what each network is, and whether it is ready."""
        return self._dispatcher.read(
            lambda: {name: info_of(each) for name, each in self._schedule.networks.items()}
        )

    def submit(
        self, name: str, inputs: Feeds, *, priority: int = 0, deadline: float | None = None
    ) -> Request:
        """Let the network *name* run on *inputs*; return at once.

        Args:
            name: The network.
            inputs: One array for each input by name, as ``Network.run`` takes them; for a network
                with batches, each with the same number of rows, up to ``max_batch``. Do not change
                them before the request is answered.
            priority: Requests of a higher one go first.
            deadline: Seconds from now. If there is no answer by then, a DeadlineError is raised.

        Returns:
            The future outputs by name: new arrays. It can be awaited, and cancelled.

        Raises:
            OptionError: There is no such network, or a number has no meaning.
            FeedError: An input is missing, unknown, or of another shape or dtype.
            RefusedError: Too many requests wait, or the network or the host is being closed.
            DeadlineError: The deadline is in the past.
            DeviceError: The network's devices are lost.
        """
        network = self._network(name)
        if priority.__class__ is not int:
            priority = _number("priority", priority)
        limit = None if deadline is None else seconds("deadline", deadline, least=-math.inf)
        if limit is not None and limit <= 0:
            raise DeadlineError(f"network {name!r}: deadline={deadline} s is in the past")
        arrays, rows = network.feeds.rows(inputs)
        withdraw = self._dispatcher.withdraw
        request = Request(name, arrays, withdraw, rows=rows, priority=priority, seconds=limit)
        self._dispatcher.submit(network, request)
        return request

    def run(
        self, name: str, inputs: Feeds, *, priority: int = 0, deadline: float | None = None
    ) -> dict[str, Array]:
        """Do what :meth:`submit` does, wait for the answer, and return or raise it."""
        return self.submit(name, inputs, priority=priority, deadline=deadline).wait()

    def _network(self, name: str) -> ServedNetwork:
        network = self._schedule.networks.get(name) if isinstance(name, str) else None
        if network is None:
            self._require_open()
            known = list(self._schedule.networks)
            raise OptionError(
                f"the host has no network {described(name)}{closest(str(name), known)}; it has "
                f"{known!s:.200}"
            )
        return network

    def health(self) -> Mapping[str, Health]:
        """Return how each device is, by its name."""
        return {device.name: device.health() for device in self._devices}

    def statistics(self) -> Statistics:
        """Return counts so far, and the numbers of requests that wait and run now."""
        networks = self._dispatcher.read(
            lambda: {name: n.statistics() for name, n in self._schedule.networks.items()}
        )
        return Statistics(networks, {device.name: device.statistics() for device in self._devices})

    def close(self, timeout: float | None = None) -> None:
        """Refuse new requests, wait until the earlier ones are answered, and unload all networks.

        Devices that the host has opened are closed. After *timeout* seconds, requests that have no
        answer get a RefusedError, and devices that are at work are killed. If a call was
        interrupted, a second call completes it.
        """
        with self._changing:
            if self._has_ended:
                return
            self._is_closed = True
            networks = list(self._schedule.networks.values())
        in_time = self._dispatcher.drain(networks, "the host is being closed", timeout)
        self._recovery.stop()
        if not in_time:
            for network in networks:
                error = RefusedError(f"network {network.name!r}: the host was closed")
                self._dispatcher.fail(network, error)
            for device in self._devices:
                if device.load:
                    device.kill("the host was closed")
        self._dispatcher.stop()
        for network in networks:
            self._provisioner.unload(network.flows)
        for own in self._own:
            own.close()
        self._has_ended = True

    def __enter__(self) -> Self:
        """Return the host, which is closed at the end of the statement."""
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        """Close the host; after an interrupt from the keyboard, wait for no request any more."""
        is_interrupted = error is not None and not isinstance(error, Exception)
        self.close(0.0 if is_interrupted else None)


def _number(name: str, value: object) -> int:
    """Return the argument called *name* as an int: one of NumPy may wrap or round in sums."""
    number = as_integer(value)
    if number is None:
        raise OptionError(f"{name}={described(value)}: give a whole number")
    return number
