"""Networks on many devices (paper section 6): partitioned, provisioned, executed, served.

What is named here comes when it is asked for: a process that only runs what others have compiled
imports its own part alone.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from glow_nb.runtime.deploy import compile_part as compile_part
    from glow_nb.runtime.deployable import Deployable as Deployable
    from glow_nb.runtime.device_description import DeviceDescription as DeviceDescription
    from glow_nb.runtime.device_description import Link as Link
    from glow_nb.runtime.host import HostManager as HostManager
    from glow_nb.runtime.partitioner import partition as partition
    from glow_nb.runtime.partitioning import Part as Part
    from glow_nb.runtime.partitioning import Partitioning as Partitioning
    from glow_nb.runtime.tracer import Tracer as Tracer

_MODULES = {
    "Deployable": "deployable",
    "DeviceDescription": "device_description",
    "HostManager": "host",
    "Link": "device_description",
    "Part": "partitioning",
    "Partitioning": "partitioning",
    "Tracer": "tracer",
    "compile_part": "deploy",
    "partition": "partitioner",
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
