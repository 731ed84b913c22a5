"""Networks on many devices (paper section 6): partitioned, provisioned, executed, served.

It imports `network` and what stands below that.

These names are imported at first use: a process that only runs what others have compiled
imports its own part alone.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from glow_nb.runtime.deploy import compile_part as compile_part
    from glow_nb.runtime.deployable import Deployable as Deployable
    from glow_nb.runtime.devices.device import Health as Health
    from glow_nb.runtime.devices.device_description import DeviceDescription as DeviceDescription
    from glow_nb.runtime.devices.device_description import Link as Link
    from glow_nb.runtime.hosting.host import HostManager as HostManager
    from glow_nb.runtime.hosting.network_info import NetworkInfo as NetworkInfo
    from glow_nb.runtime.hosting.request import Request as Request
    from glow_nb.runtime.hosting.statistics import DeviceStatistics as DeviceStatistics
    from glow_nb.runtime.hosting.statistics import Histogram as Histogram
    from glow_nb.runtime.hosting.statistics import NetworkCounters as NetworkCounters
    from glow_nb.runtime.hosting.statistics import NetworkStatistics as NetworkStatistics
    from glow_nb.runtime.hosting.statistics import Statistics as Statistics
    from glow_nb.runtime.hosting.tracer import TracedRequest as TracedRequest
    from glow_nb.runtime.hosting.tracer import Tracer as Tracer
    from glow_nb.runtime.planning.partitioner import partition as partition
    from glow_nb.runtime.planning.partitioning import Part as Part
    from glow_nb.runtime.planning.partitioning import Partitioning as Partitioning

_MODULES = {
    "Deployable": "deployable",
    "DeviceDescription": "devices.device_description",
    "DeviceStatistics": "hosting.statistics",
    "Health": "devices.device",
    "Histogram": "hosting.statistics",
    "HostManager": "hosting.host",
    "Link": "devices.device_description",
    "NetworkCounters": "hosting.statistics",
    "NetworkInfo": "hosting.network_info",
    "NetworkStatistics": "hosting.statistics",
    "Part": "planning.partitioning",
    "Partitioning": "planning.partitioning",
    "Request": "hosting.request",
    "Statistics": "hosting.statistics",
    "TracedRequest": "hosting.tracer",
    "Tracer": "hosting.tracer",
    "compile_part": "deploy",
    "partition": "planning.partitioner",
}
"""The module that defines each public name."""


def __getattr__(name: str) -> object:
    """Import the module of a public name."""
    if name not in _MODULES:
        raise AttributeError(f"module 'glow_nb.runtime' has no attribute {name!r}")
    module = importlib.import_module(f"glow_nb.runtime.{_MODULES[name]}")
    globals()[name] = getattr(module, name)
    return globals()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
