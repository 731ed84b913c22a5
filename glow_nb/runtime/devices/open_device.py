"""From a description to the device that it tells of."""

from __future__ import annotations

from glow_nb.arguments import whole_number
from glow_nb.errors import OptionError
from glow_nb.runtime.devices.device import Device
from glow_nb.runtime.devices.device_description import KINDS, DeviceDescription
from glow_nb.runtime.devices.options import DeviceOptions, read_options
from glow_nb.schema import closest

WITHOUT_OPTIONS = ("local", "interpreter")
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
            f"{subject}: kind {kind!r:.80}{closest(str(kind), KINDS)}; give one of {list(KINDS)}"
        )
    _ = description.unsupported  # raises
    if kind in WITHOUT_OPTIONS:
        read_options(description, DeviceOptions)
    whole_number(f"{subject}: cores", description.cores, least=1)
    whole_number(f"{subject}: memory_bytes", description.memory_bytes, least=1)
    interprets = description.backend == INTERPRETER
    if kind != "simulated" and interprets != (kind == INTERPRETER):
        needed = INTERPRETER if kind == INTERPRETER else "cpu"
        raise OptionError(
            f"{subject}: a device of the kind {kind!r} does not run what the backend "
            f"{description.backend!r:.80} makes; give backend {needed!r}"
        )
