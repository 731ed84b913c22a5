"""The description of a device: its rates, its memory and its links, as numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import cast, get_args

from glow_nb.base.arguments import described
from glow_nb.base.errors import OptionError
from glow_nb.base.precision import FULL, Precision

KINDS = ("local", "process", "ray", "interpreter", "simulated")
"""The kinds of devices."""
UNSUPPORTED = "unsupported"
"""The option of all kinds of devices that lists operators that the device must not run."""

WITHOUT = "without"
"""The option of all kinds of devices that lists passes that are left out for it."""

PRECISION, KEEP = "precision", "keep"
"""The options that give the precision of products, and the layers that stay float32."""


@dataclass(frozen=True)
class Link:
    """A connection between two devices, or between a device and the host, that tensors go through.

    Attributes:
        bytes_per_second: The bandwidth.
        latency_seconds: The additional time of each transfer.
    """

    bytes_per_second: float
    latency_seconds: float = 0.0

    def __post_init__(self) -> None:
        if not (self.bytes_per_second > 0 and self.latency_seconds >= 0):
            raise OptionError(
                f"{self}: a link needs a positive rate, and a latency that is not negative"
            )

    def seconds(self, size_bytes: int) -> float:
        """Return how long a transfer of *size_bytes* takes."""
        return self.latency_seconds + size_bytes / self.bytes_per_second


@dataclass(frozen=True)
class DeviceDescription:
    """A device, as partitioner, provisioner and simulator know it.

    Attributes:
        name: Unique among the devices of a host.
        kind: The kind of device: ``local``, ``process``, ``ray``, ``interpreter`` or ``simulated``.
        backend: The name of the backend that compiles for it.
        cores: Cores that share one run.
        memory_bytes: Memory for constants, arena, scratch, inputs and outputs of all networks on
            it.
        multiply_adds_per_second: float32 multiply-adds of all its cores.
        memory_bytes_per_second: Its memory bandwidth.
        link: The link to the host, and to each device that *links* does not name.
        links: The links to other devices by their names.
        options: Options of its kind, such as Ray's resources, and options of all kinds:
            ``unsupported``, operators that it must not run; ``without``, passes that are left out
            of compilations for it; ``precision`` and ``keep``, as ``compile`` takes them.
    """

    name: str
    kind: str = "local"
    backend: str = "cpu"
    cores: int = 1
    memory_bytes: int = 2 << 30
    multiply_adds_per_second: float = 50e9
    memory_bytes_per_second: float = 10e9
    link: Link = field(default_factory=lambda: Link(5e9, 20e-6))
    links: Mapping[str, Link] = field(default_factory=dict)
    options: Mapping[str, object] = field(default_factory=dict)

    def link_to(self, other: str) -> Link:
        """Return the link to the device called *other*."""
        return self.links.get(other, self.link)

    @property
    def unsupported(self) -> frozenset[str]:
        """The operators that it must not run; raise OptionError unless the option is a list."""
        return self._listed(UNSUPPORTED, "operators")

    @property
    def without(self) -> frozenset[str]:
        """The passes that are left out for it; raise OptionError unless the option is a list."""
        return self._listed(WITHOUT, "passes")

    @property
    def precision(self) -> Precision:
        """The precision of its products; raise OptionError for an unknown one."""
        found = self.options.get(PRECISION, FULL)
        for known in get_args(Precision):
            if found == known:
                return cast(Precision, known)
        raise OptionError(
            f"device {self.name!r}: {PRECISION}={described(found)}: give one of "
            f"{get_args(Precision)}"
        )

    @property
    def keep(self) -> frozenset[str]:
        """The layers that stay float32; raise OptionError unless the option is a list."""
        return self._listed(KEEP, "layers")

    def _listed(self, option: str, things: str) -> frozenset[str]:
        listed = self.options.get(option, ())
        if isinstance(listed, str) or not isinstance(listed, Iterable):
            raise OptionError(
                f"device {self.name!r}: {option}={described(listed)}: give a list of {things}"
            )
        return frozenset(map(str, listed))
