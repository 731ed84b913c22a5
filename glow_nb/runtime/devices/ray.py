"""A device that is an actor of Ray, on any node of a cluster."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from typing_extensions import override

from glow_nb.base.errors import DeviceError, GlowError, OptionError
from glow_nb.base.extras import needing
from glow_nb.base.foreign import foreign
from glow_nb.base.memory_limit import within_memory
from glow_nb.runtime.devices.channel import error_of
from glow_nb.runtime.devices.device_description import DeviceDescription
from glow_nb.runtime.devices.device_thread import start_thread
from glow_nb.runtime.devices.engine import Died, Ended, Engine, HeldNetwork, Outcome, Run
from glow_nb.runtime.devices.heartbeat import HEARTBEATS, check_heartbeat_timeout, silence
from glow_nb.runtime.devices.managed_device import ManagedDevice
from glow_nb.runtime.devices.native import native_of
from glow_nb.runtime.devices.options import DeviceOptions, read_options
from glow_nb.runtime.devices.ray_worker import RayWorker

START_SECONDS = 120.0
"""Start-up timeout of an actor, in seconds."""
LOOK_SECONDS = 1.0
"""Seconds between checks, during start-up, whether the device was closed."""
WATCH = "watch"
"""The group of methods of an actor that has a thread of its own."""


@dataclass(frozen=True)
class RayOptions(DeviceOptions):
    """Options for Ray; None keeps Ray's default.

    Attributes:
        address: The address of the cluster, for ``ray.init``, unless it was called before.
        namespace: The namespace of actors, for ``ray.init``.
        placement_group: A placement group, or its name.
        placement_group_bundle_index: The bundle in it.
        heartbeat_timeout: Seconds after which an actor that gives no sign of life is killed.
        num_cpus: An option of Ray's actors, as all that follow; the cores of the device if it is
            not given.
        num_gpus, memory, resources, accelerator_type: The requirements for a node.
        label_selector, scheduling_strategy: On which node the actor is started.
        runtime_env: The environment of its process.
    """

    address: object = None
    namespace: object = None
    placement_group: object = None
    placement_group_bundle_index: object = -1
    heartbeat_timeout: float = 30.0
    num_cpus: object = None
    num_gpus: object = None
    memory: object = None
    resources: object = None
    accelerator_type: object = None
    label_selector: object = None
    scheduling_strategy: object = None
    runtime_env: object = None

    @override
    def __post_init__(self) -> None:
        """Look at ours, and leave it to Ray to look at its options."""
        check_heartbeat_timeout(self.heartbeat_timeout)

    @property
    def of_cluster(self) -> dict[str, object]:
        """What is said to ``ray.init``."""
        return _given(address=self.address, namespace=self.namespace)

    @property
    def of_actor(self) -> dict[str, object]:
        """What is said of the actor, but for its placement group."""
        return _given(
            num_cpus=self.num_cpus,
            num_gpus=self.num_gpus,
            memory=self.memory,
            resources=self.resources,
            accelerator_type=self.accelerator_type,
            label_selector=self.label_selector,
            scheduling_strategy=self.scheduling_strategy,
            runtime_env=self.runtime_env,
        )


def _given(**options: object) -> dict[str, object]:
    return {name: value for name, value in options.items() if value is not None}


class RayDevice(ManagedDevice):
    """Runs machine code in an actor of Ray; arrays and programs go by Ray's object store.

    The actor takes as many of Ray's CPUs as the device has cores, unless the option ``num_cpus``
    says otherwise. Where no cluster is connected, ``ray.init`` is called when the device is opened.
    A device that is restarted later starts no cluster: who has called ``ray.shutdown`` wants none.
    """

    def __init__(self, description: DeviceDescription) -> None:
        """Start the actor that *description* tells of.

        Raises:
            OptionError: Ray is not installed, or an option means nothing.
            DeviceError: The actor is not placed, or does not start.
        """
        self._options = read_options(description, RayOptions)
        self._ray = _import_ray(description.name)
        self._was_connected = False
        super().__init__(description)

    @override
    def _start(self) -> Engine:
        ray = self._ray
        with foreign(OptionError, f"{self}: Ray"):
            if self._was_connected and not ray.is_initialized():
                raise DeviceError(
                    f"{self}: Ray was shut down; connect to a cluster again by ray.init, or close "
                    "the device"
                )
            _connect(ray, self._options)
            self._was_connected = True
            actor = _new_actor(ray, self._options, self.description.cores)
        _wait_until_ready(ray, actor, str(self), lambda: self._is_closed)
        heartbeat_timeout = self._options.heartbeat_timeout
        return _RayEngine(str(self), ray, actor, heartbeat_timeout, self._ended, self._died)


def _import_ray(name: str) -> Any:
    with needing("ray", f"device {name!r}"):
        import ray
    return ray


def _connect(ray: Any, options: RayOptions) -> None:
    """Connect to the cluster that *options* or the environment name, or start one here."""
    if ray.is_initialized():
        return
    given = options.of_cluster
    if "address" not in given and "RAY_ADDRESS" not in os.environ:
        given["include_dashboard"] = False
    ray.init(log_to_driver=False, **given)


def _new_actor(ray: Any, options: RayOptions, cores: int) -> Any:
    """Return a new actor, perhaps not yet placed."""
    from ray.util.placement_group import get_placement_group
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

    given = {"num_cpus": cores} | options.of_actor
    if group := options.placement_group:
        given["scheduling_strategy"] = PlacementGroupSchedulingStrategy(
            placement_group=get_placement_group(group) if isinstance(group, str) else group,
            placement_group_bundle_index=options.placement_group_bundle_index,
        )
    remote = ray.remote(concurrency_groups={WATCH: 1}, max_restarts=0)(RayWorker)
    return remote.options(**given).remote()


def _wait_until_ready(ray: Any, actor: Any, name: str, is_closed: Callable[[], bool]) -> None:
    """Wait until *actor* has started.

    Raises:
        DeviceError: It does not start, or not in time, or the device is closed meanwhile.
    """
    end = time.monotonic() + START_SECONDS
    started = actor.__ray_ready__.remote()
    try:
        while not ray.wait([started], timeout=min(LOOK_SECONDS, START_SECONDS))[0]:
            if is_closed():
                ray.kill(actor)
                raise DeviceError(f"{name}: it was closed while its actor was to start")
            if time.monotonic() >= end:
                ray.kill(actor)
                raise DeviceError(
                    f"{name}: Ray has not started its actor within {START_SECONDS:g} seconds; the "
                    f"cluster has {ray.available_resources()} free"
                )
        ray.get(started)
    except ray.exceptions.RayError as error:
        raise DeviceError(f"{name}: its actor does not start: {_first_line(error)}") from error


class _RayEngine:
    """An actor, the references to what it is doing, and a thread that waits for signs of life."""

    slots = 2

    def __init__(
        self, name: str, ray: Any, actor: Any, heartbeat_timeout: float, ended: Ended, died: Died
    ) -> None:
        """Let *actor*, which has started, be the device's."""
        self._name, self._ray, self._actor = name, ray, actor
        self._heartbeat_timeout, self._ended, self._died = heartbeat_timeout, ended, died
        self._programs: dict[int, Any] = {}  # references to what the actor has in use
        self._is_served = threading.Event()
        try:
            start_thread(name, self._watch)
        except DeviceError:
            self.kill()
            raise

    def serve(self) -> None:
        """Watch the actor."""
        self._is_served.set()

    def _watch(self) -> None:
        """Wait for one sign of life after the other; tell why there is no other one."""
        self._is_served.wait()
        while not (reason := self._next_beat()):
            pass
        self._died(self, reason)

    def _next_beat(self) -> str:
        """Wait for the next sign of life; return why there is none, or an empty text."""
        pause = self._heartbeat_timeout / HEARTBEATS
        try:
            with foreign(DeviceError, "Ray"):
                beat = self._actor.beat.options(concurrency_group=WATCH).remote(pause).future()
        except DeviceError as error:  # Ray was shut down
            return str(error)
        if not any(wait([beat], pause).done for _ in range(HEARTBEATS)):
            self.kill()
            return f"its actor {silence(self._heartbeat_timeout)}"
        end = beat.exception()
        return "" if end is None else f"its actor has ended: {_first_line(end)}"

    def load(self, held: HeldNetwork) -> None:
        """Put the program of a network where all actors of a node can map it, and load it."""
        content = np.frombuffer(native_of(held.network).to_bytes(), np.uint8)
        with foreign(DeviceError, f"{self._name}: network {held.key!r}"):
            program = self._ray.put(content)
            text = self._ray.get(self._actor.load.remote(held.number, held.key, program))
        if text:
            raise error_of(text)
        self._programs[held.number] = program

    def unload(self, held: HeldNetwork) -> None:
        """Let the actor forget a network, before it takes another call."""
        with foreign(DeviceError, f"{self._name}: network {held.key!r}"):
            self._actor.unload.remote(held.number)
        del self._programs[held.number]

    def begin(self, run: Run) -> None:
        """Send the inputs of *run* to the actor."""
        try:
            with foreign(DeviceError, f"{self._name}: Ray"):
                reference = self._actor.run.remote(run.held.number, *run.inputs)
                answer = reference.future()
        except DeviceError as error:  # Ray was shut down
            self._died(self, str(error))
        else:
            answer.add_done_callback(partial(self._answered, run))

    def _answered(self, run: Run, answer: Future[list[Any] | str]) -> None:
        error = answer.exception()
        if isinstance(error, self._ray.exceptions.RayActorError):
            self._died(self, f"its actor has ended: {_first_line(error)}")
        elif error is not None:
            subject = f"{self._name}: network {run.held.key!r}"
            self._ended(run, DeviceError(f"{subject}: {_first_line(error)}"))
        else:
            self._ended(run, self._outcome(answer.result()))

    def _outcome(self, answer: list[Any] | str) -> Outcome:
        """Return arrays of our own: those in Ray's store cannot be written, and take room there."""
        if isinstance(answer, str):
            return error_of(answer)
        try:
            with within_memory(f"{self._name}: results"):
                return [np.array(array) for array in answer]
        except GlowError as error:
            return error

    def stop(self) -> None:
        """End the actor."""
        self.kill()

    def kill(self) -> None:
        """Kill the actor; that of a cluster which was left has ended with that."""
        if self._ray.is_initialized():
            self._ray.kill(self._actor)


def _first_line(error: BaseException | None) -> str:
    """Return the first line of what Ray says, with what kind of error it is."""
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0]}"
