"""From a description to the device that it tells of."""

from __future__ import annotations

from glow_nb.backends import BACKENDS
from glow_nb.base.arguments import described, whole_number
from glow_nb.base.errors import OptionError
from glow_nb.base.schema import closest
from glow_nb.runtime.devices.device import Device
from glow_nb.runtime.devices.device_description import KINDS, DeviceDescription
from glow_nb.runtime.devices.options import DeviceOptions, read_options

INTERPRETER = "interpreter"
"""The name of a kind, and of the backend that it needs."""


def open_device(description: DeviceDescription) -> Device:
    """Start the device that *description* tells of; it is alive and empty.

    Raises:
        OptionError: The description means nothing: says which field, and what it may be.
        DeviceError: The device does not start.
    """
    _check(description)
    match description.kind:
        case "local":
            from glow_nb.runtime.devices.local import LocalDevice

            return LocalDevice(description)
        case "process":
            from glow_nb.runtime.devices.process import ProcessDevice

            return ProcessDevice(description)
        case "ray":
            from glow_nb.runtime.devices.ray import RayDevice

            return RayDevice(description)
        case "simulated":
            from glow_nb.runtime.devices.simulated import SimulatedDevice

            return SimulatedDevice(description)
        case _:
            from glow_nb.runtime.devices.interpreter import InterpreterDevice

            return InterpreterDevice(description)


def _check(description: DeviceDescription) -> None:
    subject, kind = f"device {description.name!r:.80}", description.kind
    if kind not in KINDS:
        raise OptionError(
            f"{subject}: kind {described(kind)}{closest(str(kind), KINDS)}; "
            f"give one of {list(KINDS)}"
        )
    check_options(description)
    whole_number(f"{subject}: cores", description.cores, least=1)
    whole_number(f"{subject}: memory_bytes", description.memory_bytes, least=1)
    check_backend(description)


def check_options(description: DeviceDescription) -> None:
    """Raise OptionError if an option means nothing to a device of its kind."""
    _ = description.unsupported  # raises
    read_options(description, _options_of(description.kind))


def _options_of(kind: str) -> type[DeviceOptions]:
    match kind:
        case "process":
            from glow_nb.runtime.devices.process import ProcessOptions

            return ProcessOptions
        case "ray":
            from glow_nb.runtime.devices.ray import RayOptions

            return RayOptions
        case "simulated":
            from glow_nb.runtime.devices.simulated import SimulatedOptions

            return SimulatedOptions
        case _:
            return DeviceOptions


def check_backend(description: DeviceDescription) -> None:
    """Raise OptionError if there is no such backend, or a device of its kind runs another one's."""
    subject, kind = f"device {description.name!r:.80}", description.kind
    if isinstance(description.backend, str) and description.backend not in BACKENDS:
        raise OptionError(
            f"{subject}: unknown backend {described(description.backend)}"
            f"{closest(description.backend, BACKENDS)}; give one of {sorted(BACKENDS)}"
        )
    interprets = description.backend == INTERPRETER
    if kind != "simulated" and interprets != (kind == INTERPRETER):
        needed = INTERPRETER if kind == INTERPRETER else "cpu"
        raise OptionError(
            f"{subject}: a device of the kind {kind!r} does not run what the backend "
            f"{described(description.backend)} makes; give backend {needed!r}"
        )
