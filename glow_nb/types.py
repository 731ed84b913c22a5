"""Classes of what networks, ``glow_nb.plans`` and graphs return, for annotations.

Only glow_nb makes their objects. ``net.profile`` returns a ``Profile`` of many
``KernelTime``, for example::

    from glow_nb.types import KernelTime, Profile

    def slowest(profile: Profile) -> KernelTime:
        return max(profile.kernels, key=lambda kernel: kernel.median_seconds)

Results of the other public modules stand in these: ``glow_nb.quant`` has ``Drift``, for example.
"""

from __future__ import annotations

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
