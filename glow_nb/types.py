"""Classes of what networks, ``glow_nb.plans`` and graphs return, for annotations.

Only glow_nb makes their objects. ``net.profile`` returns a ``Profile`` of many
``KernelTime``, for example::

    from glow_nb.types import KernelTime, Profile

    def slowest(profile: Profile) -> KernelTime:
        return max(profile.kernels, key=lambda kernel: kernel.median_seconds)

Results of the other public modules stand in these: ``glow_nb.quant`` has ``Drift``, for example.

These names are imported at first use: a process that only runs networks of the cache imports no
compiler for its annotations.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from glow_nb.backends.backend import Timings as Timings
    from glow_nb.backends.cpu.algorithms.explain import LayerPlans as LayerPlans
    from glow_nb.backends.cpu.algorithms.explain import PlanTable as PlanTable
    from glow_nb.backends.cpu.algorithms.explain import Weighed as Weighed
    from glow_nb.base.costs import InstructionCost as InstructionCost
    from glow_nb.base.counted import Counted as Counted
    from glow_nb.base.finite import BadElement as BadElement
    from glow_nb.base.guards import Guard as Guard
    from glow_nb.base.kernel_report import KernelList as KernelList
    from glow_nb.base.machine_limits import DotRate as DotRate
    from glow_nb.base.machine_limits import MachineLimits as MachineLimits
    from glow_nb.base.machine_limits import MemoryLevel as MemoryLevel
    from glow_nb.base.payload import Recipe as Recipe
    from glow_nb.base.precision import LayerPrecision as LayerPrecision
    from glow_nb.base.precision import PrecisionReport as PrecisionReport
    from glow_nb.base.specialized import Specialized as Specialized
    from glow_nb.base.symbol import Symbol as Symbol
    from glow_nb.base.table import Table as Table
    from glow_nb.base.types import Array as Array
    from glow_nb.base.types import ElementKind as ElementKind
    from glow_nb.base.types import SymbolicType as SymbolicType
    from glow_nb.base.types import TensorType as TensorType
    from glow_nb.hlir.save import Save as Save
    from glow_nb.network.memory_report import MemoryReport as MemoryReport
    from glow_nb.network.profile import KernelTime as KernelTime
    from glow_nb.network.profile import Profile as Profile
    from glow_nb.network.runner import BoundRun as BoundRun
    from glow_nb.system.background import AwaitableFuture as AwaitableFuture
    from glow_nb.system.state_store import StateStore as StateStore

_MODULES = {
    "Array": "base.types",
    "AwaitableFuture": "system.background",
    "BadElement": "base.finite",
    "BoundRun": "network.runner",
    "Counted": "base.counted",
    "DotRate": "base.machine_limits",
    "ElementKind": "base.types",
    "Guard": "base.guards",
    "InstructionCost": "base.costs",
    "KernelList": "base.kernel_report",
    "KernelTime": "network.profile",
    "LayerPlans": "backends.cpu.algorithms.explain",
    "LayerPrecision": "base.precision",
    "MachineLimits": "base.machine_limits",
    "MemoryLevel": "base.machine_limits",
    "MemoryReport": "network.memory_report",
    "PlanTable": "backends.cpu.algorithms.explain",
    "PrecisionReport": "base.precision",
    "Profile": "network.profile",
    "Recipe": "base.payload",
    "Save": "hlir.save",
    "Specialized": "base.specialized",
    "StateStore": "system.state_store",
    "Symbol": "base.symbol",
    "SymbolicType": "base.types",
    "Table": "base.table",
    "TensorType": "base.types",
    "Timings": "backends.backend",
    "Weighed": "backends.cpu.algorithms.explain",
}
"""The module that defines each name."""


def __getattr__(name: str) -> object:
    """Import the module of a public name."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = getattr(importlib.import_module(f"glow_nb.{_MODULES[name]}"), name)
    return globals()[name]


def __dir__() -> list[str]:
    return sorted(_MODULES)
