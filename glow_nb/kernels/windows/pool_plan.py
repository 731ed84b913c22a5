"""How a pool with many taps is computed: one dimension after the other, by taps or by scans.

A window is a product of intervals, so its maximum, or its sum, is that of the results of its lines:
13 x 13 taps become 13 and 13. What the lines come to waits in scratch, for some channels and some
rows of the result at a time. A line itself is reduced tap by tap, or by scans (see
:mod:`.window_lines`), whose time does not depend on the number of taps.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from glow_nb.base.plan import Plan
from glow_nb.kernels.stacks.fusion import Fusion
from glow_nb.kernels.target import Target
from glow_nb.kernels.windows.pool_windows import Pool, Windows
from glow_nb.kernels.writing.pixels import Pixels
from glow_nb.kernels.writing.vectors import ceil_power_of_two, native_lanes
from glow_nb.llir.instructions.pooling import AvgPoolInst, MaxPoolInst

SEPARABLE = "separable"
"""The algorithm that reduces windows along one dimension after the other."""


def plan_pool(
    instruction: MaxPoolInst | AvgPoolInst, target: Target, fusion: Fusion
) -> Plan | None:
    """Plan the dimensions of a pool; None if each window is a loop over its taps."""
    if not instruction.dest.type.size or not instruction.input.type.size:
        return None
    if not Pixels.of(fusion.pointers, fusion.made.type.shape).are_dense:
        return None
    pool = Pool.of(instruction)
    windows, axes = pool.windows, _axes(pool.windows)
    if not axes:
        return None
    scans = tuple(axis for axis in axes if _prefers_scan(windows, axis))
    taps = prod(windows.out) * prod(windows.kernel)
    if target.machine.separable_pool_gain * _operations(windows, axes, scans) > taps:
        return None
    return _blocked(pool, scans, target).as_plan()


def _axes(windows: Windows) -> tuple[int, ...]:
    """Return the dimensions along which windows have something to reduce, the last one first."""
    return tuple(a for a in reversed(range(len(windows.out))) if not windows.is_single(a))


def _prefers_scan(windows: Windows, axis: int) -> bool:
    """Return whether scans of a line take fewer operations than its taps."""
    return windows.dilation[axis] == 1 and _scanned(windows, axis) < _tapped(windows, axis)


def _tapped(windows: Windows, axis: int) -> int:
    """Return the operations of a line by taps."""
    return windows.out[axis] * windows.kernel[axis]


def _scanned(windows: Windows, axis: int) -> int:
    """Return the operations of a line by scans: each cell twice, then what is stored and loaded."""
    cells = (windows.out[axis] - 1) * windows.stride[axis] + windows.kernel[axis]
    return 2 * cells + 2 * windows.out[axis]


def _operations(windows: Windows, axes: tuple[int, ...], scans: tuple[int, ...]) -> int:
    """Return the operations on vectors for one block of channels of one image."""
    total, sizes = 0, list(windows.size)
    for axis in axes:
        line = _scanned(windows, axis) if axis in scans else _tapped(windows, axis)
        stored = 2 * windows.out[axis]
        lines = prod(size for other, size in enumerate(sizes) if other != axis)
        total += lines * (line + stored)
        sizes[axis] = windows.out[axis]
    return total


def _blocked(pool: Pool, scans: tuple[int, ...], target: Target) -> SeparablePlan:
    """Return the plan of as many channels and rows as the second-level cache has room for."""
    machine, windows = target.machine, pool.windows
    native = native_lanes(target, pool.fold.kind)
    lanes = min(machine.unroll_vectors * native, ceil_power_of_two(windows.channels))
    plan = SeparablePlan(pool, scans, lanes, windows.out[0])
    room = machine.l2_share * machine.l2_bytes
    while plan.lanes > native and plan.scratch_bytes > room:
        plan = SeparablePlan(pool, scans, plan.lanes // 2, plan.rows)
    while plan.scratch_bytes > room and plan.rows * windows.stride[0] > windows.span(0):
        plan = SeparablePlan(pool, scans, plan.lanes, -(-plan.rows // 2))
    return plan


@dataclass(frozen=True)
class SeparablePlan:
    """The settings of a separable pool.

    Attributes:
        pool: What is computed.
        scans: Dimensions whose lines are scanned; those of the others are loops over taps.
        lanes: Channels that are computed together.
        rows: Steps of the result along the first dimension that are computed together.
    """

    pool: Pool
    scans: tuple[int, ...]
    lanes: int
    rows: int

    def as_plan(self) -> Plan:
        """Return the plan that :meth:`from_plan` makes this of."""
        return Plan.of(SEPARABLE, rows=self.rows, lanes=self.lanes, scans=self.scans)

    @classmethod
    def from_plan(cls, plan: Plan, pool: Pool, target: Target) -> SeparablePlan:
        """Return the settings of *plan* for *pool*.

        Raises:
            UnsupportedError: A setting is missing, or the pool cannot be computed like that.
        """
        windows, scans = pool.windows, plan.sizes("scans")
        most = target.machine.unroll_vectors * native_lanes(target, pool.fold.kind)
        lanes = plan.number("lanes", most=most)
        if lanes.bit_count() != 1:
            raise plan.unfit(f"lanes = {lanes} must be a power of two")
        for axis in scans:
            if not 0 <= axis < len(windows.out) or windows.dilation[axis] != 1:
                raise plan.unfit(
                    f"scans = {scans} must be dimensions without dilation, of {windows.dilation}"
                )
        return cls(pool, scans, lanes, plan.number("rows", most=max(1, *windows.out[:1])))

    @property
    def axes(self) -> tuple[int, ...]:
        """The dimensions to reduce, in this order; the last one writes the result."""
        return _axes(self.pool.windows) or (0,)

    @property
    def pieces(self) -> int:
        """Parts of the result along the first dimension."""
        return -(-self.pool.windows.out[0] // self.rows)

    @property
    def read_rows(self) -> int:
        """The most rows of the input along the first dimension that a part reads."""
        windows = self.pool.windows
        return min(windows.size[0], (self.rows - 1) * windows.stride[0] + windows.span(0))

    @property
    def level_sizes(self) -> list[tuple[int, ...]]:
        """Spatial sizes of what waits in scratch, for each dimension but the last that reduces."""
        sizes, levels = [self.read_rows, *self.pool.windows.size[1:]], []
        for axis in self.axes[:-1]:
            sizes[axis] = self.pool.windows.out[axis]
            levels.append(tuple(sizes))
        return levels

    @property
    def scan_vectors(self) -> int:
        """Vectors that the scans of a line keep."""
        return max((self.pool.windows.kernel[axis] for axis in self.scans), default=0)

    @property
    def scratch_bytes(self) -> int:
        """Size of the scratch: the levels, then what a scan keeps."""
        vectors = sum(map(prod, self.level_sizes)) + self.scan_vectors
        return vectors * self.lanes * self.pool.fold.kind.size_bytes
