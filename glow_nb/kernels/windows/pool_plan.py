"""The loops of a pool with many taps: one dimension after the other, by taps or by scans.

A window is a product of intervals, so its maximum, or its sum, is that of the results of its lines:
13 x 13 taps become 13 and 13. What the lines come to waits in scratch, for some channels and some
rows of the result at a time. A line itself is reduced tap by tap, or by scans (see
:mod:`.window_lines`), whose time does not depend on the number of taps.

Where there is one channel, as in images with the channels first, vectors are neighbours of the last
dimension, which is reduced first (see :mod:`.window_rows`). They take the place of the channels.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from glow_nb.base.plan import MAX_SETTING, Plan
from glow_nb.kernels.stacks.fusion import Fusion
from glow_nb.kernels.target import Target
from glow_nb.kernels.windows.pool_windows import Pool, Windows
from glow_nb.kernels.windows.window_rows import Row
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
    pool = Pool.of(instruction)
    windows = pool.windows
    if not pixels_of(fusion, windows.channels == 1).are_dense or not windows.has_dense_rows:
        return None
    scans = tuple(axis for axis in _axes(windows) if _prefers_scan(windows, axis))
    if windows.channels == 1:
        return _in_rows(pool, scans, target).as_plan()
    taps = prod(windows.out) * prod(windows.kernel)
    if target.machine.separable_pool_gain * _operations(windows, scans) > taps:
        return None
    return _in_channels(pool, scans, target).as_plan()


def pixels_of(fusion: Fusion, is_in_rows: bool) -> Pixels:
    """Return where the cells of the result of a pool lie; its one channel is none, *in rows*."""
    pixels = Pixels.of(fusion.pointers, fusion.made.type.shape)
    if not is_in_rows:
        return pixels
    return Pixels({name: strides[:-1] for name, strides in pixels.strides.items()})


def _axes(windows: Windows) -> tuple[int, ...]:
    """Return the dimensions along which windows have something to reduce, the last one first."""
    return tuple(a for a in reversed(range(len(windows.out))) if not windows.is_single(a))


def _prefers_scan(windows: Windows, axis: int) -> bool:
    """Return whether scans of a line take fewer operations than its taps."""
    if windows.dilation[axis] > 1 or windows.is_row(axis):
        return False
    return _scanned(windows, axis) < _tapped(windows, axis)


def _tapped(windows: Windows, axis: int) -> int:
    """Return the operations of a line by taps."""
    return windows.out[axis] * windows.kernel[axis]


def _scanned(windows: Windows, axis: int) -> int:
    """Return the operations of a line by scans: each cell twice, then what is stored and loaded."""
    cells = (windows.out[axis] - 1) * windows.stride[axis] + windows.kernel[axis]
    return 2 * cells + 2 * windows.out[axis]


def _operations(windows: Windows, scans: tuple[int, ...]) -> int:
    """Return the operations on vectors for one block of channels of one image."""
    total, sizes = 1, list(windows.size)
    for axis in _axes(windows):
        line = _scanned(windows, axis) if axis in scans else _tapped(windows, axis)
        stored = 2 * windows.out[axis]
        lines = prod(size for other, size in enumerate(sizes) if other != axis)
        total += lines * (line + stored)
        sizes[axis] = windows.out[axis]
    return total


def _in_channels(pool: Pool, scans: tuple[int, ...], target: Target) -> SeparablePlan:
    """Return the plan with the channels and rows that the second-level cache has room for."""
    native = native_lanes(target, pool.fold.kind)
    lanes = min(target.machine.unroll_vectors * native, ceil_power_of_two(pool.windows.channels))
    plan, room = SeparablePlan(pool, scans, lanes, pool.windows.out[0]), _room(target)
    while plan.lanes > native and plan.scratch_bytes > room:
        plan = replace(plan, lanes=plan.lanes // 2)
    return _cut(plan, room)


def _in_rows(pool: Pool, scans: tuple[int, ...], target: Target) -> SeparablePlan:
    """Return the plan of the number of rows that the second-level cache has room for."""
    native = native_lanes(target, pool.fold.kind)
    lanes = min(native, ceil_power_of_two(pool.windows.out[-1]))
    rows = pool.windows.out[0] if len(pool.windows.out) > 1 else 1
    return _cut(SeparablePlan(pool, scans, lanes, rows), _room(target))


def _room(target: Target) -> float:
    return target.machine.l2_share * target.machine.l2_bytes


def _cut(plan: SeparablePlan, room: float) -> SeparablePlan:
    """Return *plan* with rows for which there is *room*, or as few as do not overlap much."""
    windows = plan.pool.windows
    if windows.is_row(0):
        return plan
    stride, span = windows.stride[0], windows.span(0)
    while plan.rows > 1 and plan.scratch_bytes > room and plan.rows * stride > span:
        plan = replace(plan, rows=-(-plan.rows // 2))
    return plan


@dataclass(frozen=True)
class SeparablePlan:
    """The settings of a separable pool.

    Attributes:
        pool: The pool.
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
        if not windows.has_dense_rows:
            raise plan.unfit("neighbours of a row lie apart")
        most = target.machine.unroll_vectors * native_lanes(target, pool.fold.kind)
        lanes = plan.number("lanes", most=most)
        if lanes.bit_count() != 1:
            raise plan.unfit(f"lanes = {lanes} must be a power of two")
        for axis in scans:
            rank = len(windows.out) - (windows.channels == 1)
            if not 0 <= axis < rank or windows.dilation[axis] != 1:
                raise plan.unfit(
                    f"scans = {scans} must be dimensions without dilation, of {windows.dilation}, "
                    "and no row of one channel"
                )
        most_rows = MAX_SETTING if windows.is_open(0) else windows.out[0]
        return cls(pool, scans, lanes, plan.number("rows", most=most_rows))

    @property
    def is_in_rows(self) -> bool:
        """Whether vectors are neighbours of the last dimension, not channels."""
        return self.pool.windows.channels == 1

    @property
    def row(self) -> Row:
        """The windows along the last dimension, if that is a row of vectors."""
        return Row(self.pool.windows, self.pool.fold, self.pool.kind, self.lanes)

    @property
    def width(self) -> int:
        """Elements of a cell in scratch: a block of channels, or a row of the result."""
        return self.row.width if self.is_in_rows else self.lanes

    @property
    def rank(self) -> int:
        """Dimensions in which cells lie."""
        return len(self.pool.windows.out) - self.is_in_rows

    @property
    def axes(self) -> tuple[int, ...]:
        """The dimensions of cells to reduce, in this order; the last one writes the result."""
        axes = tuple(axis for axis in _axes(self.pool.windows) if axis < self.rank)
        return axes if axes or self.is_in_rows else (0,)

    @property
    def pieces(self) -> int:
        """Parts of the result along the first dimension; a row is one."""
        return 1 if not self.rank else (self.pool.windows.out[0] + self.rows - 1) // self.rows

    @property
    def read_rows(self) -> int:
        """The most steps of the first dimension of the input that a part reads."""
        windows = self.pool.windows
        reach = (self.rows - 1) * windows.stride[0] + windows.span(0)
        return reach if windows.is_open(0) else min(windows.size[0], reach)

    @property
    def level_sizes(self) -> list[tuple[int, ...]]:
        """Sizes of what waits in scratch: the reduced rows, then cells, but for the result."""
        windows = self.pool.windows
        sizes, levels = [self.read_rows, *windows.size[1:]][: self.rank], []
        if self.is_in_rows and self.axes:
            levels.append(tuple(sizes))
        for axis in self.axes[:-1]:
            sizes[axis] = windows.out[axis]
            levels.append(tuple(sizes))
        return levels

    @property
    def scan_offset(self) -> int:
        """Where in scratch a scan keeps its vectors, in elements."""
        return sum(map(prod, self.level_sizes)) * self.width

    @property
    def keeps_counts(self) -> bool:
        """Whether windows of a mean differ along the row in how many of their cells count."""
        windows, axis = self.pool.windows, len(self.pool.windows.out) - 1
        return self.pool.is_mean and self.is_in_rows and windows.is_clipped(axis)

    @property
    def counts_offset(self) -> int:
        """Where in scratch these counts lie, in elements."""
        return self._kept_elements

    @property
    def _kept_elements(self) -> int:
        """Elements of all cells in scratch, and of the vectors that a scan keeps."""
        taps = (self.pool.windows.kernel[axis] for axis in self.scans if axis < self.rank)
        return self.scan_offset + max(taps, default=0) * self.lanes

    @property
    def scratch_bytes(self) -> int:
        """Size of the scratch."""
        return (
            self._kept_elements + self.keeps_counts * self.width
        ) * self.pool.fold.kind.size_bytes
