"""The peak rates of a machine, of arithmetic and memory traffic, and the roofline of both.

The roofline (Williams, Waterman and Patterson, 2009): a kernel takes at least as long as its
arithmetic at the peak rate, and at least as long as its bytes at the rate of the memory level that
they lie in. The limits are measured, see ``glow_nb.codegen.measure_limits``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

Bound = Literal["arithmetic", "memory", ""]
"""What limits a kernel; empty if it neither computes nor moves anything."""


@dataclass(frozen=True)
class MemoryLevel:
    """One level of the memory, with the rates of all threads together.

    Attributes:
        name: ``L1``, ``L2``, ``L3`` or ``DRAM``.
        size_bytes: The size of one cache; 0 for the last level, which holds everything.
        read_rate: Bytes a second that can be read.
        copy_rate: Bytes a second, read and written ones together, that can be copied within it.
        cores: Cores that share one cache; 0 where the system does not tell.
        caches: The number of caches of this level that the threads use.
        streamed_rate: Like *copy_rate*, for a copy that writes past the caches; 0 in a cache.
    """

    name: str
    size_bytes: int
    read_rate: float
    copy_rate: float
    cores: int = 0
    caches: int = 1
    streamed_rate: float = 0.0

    @property
    def all_bytes(self) -> int:
        """The size of the caches of all threads together."""
        return self.size_bytes * self.caches

    @property
    def write_rate(self) -> float:
        """Bytes a second that can be written: what a copy takes beyond reading is writing."""
        best = max(self.copy_rate, self.streamed_rate)
        return 1 / max(2 / best - 1 / self.read_rate, 0.5 / best)

    def seconds(self, read_bytes: float, written_bytes: float) -> float:
        """Return the least time for this traffic."""
        return read_bytes / self.read_rate + written_bytes / self.write_rate


@dataclass(frozen=True)
class DotRate:
    """The rate of one dot instruction, with all threads together.

    Attributes:
        dot: Its name in plans, as ``tile_dot_vpdpbusd``.
        operation_rate: Operations a second; a multiplication and an addition are two.
    """

    dot: str
    operation_rate: float

    @property
    def instruction(self) -> str:
        """What the assembler calls it."""
        return self.dot.removeprefix("tile_dot_")

    @property
    def meaning(self) -> str:
        """The products that it computes, for people."""
        return DOT_MEANINGS.get(self.dot, self.instruction)


DOT_MEANINGS = {
    "tile_dot_vpdpwssd": "pairs of 16-bit integers, in vectors",
    "tile_dot_vpdpbusd": "bytes, in vectors",
    "tile_dot_vdpbf16ps": "bfloat16, in vectors",
    "tile_dot_tdpbf16ps": "bfloat16, in tiles",
    "tile_dot_tdpbusd": "bytes, in tiles",
}
"""What the dot instructions that are measured multiply."""

_AS_FAST = dict.fromkeys(
    ("tile_dot_tdpbssd", "tile_dot_tdpbsud", "tile_dot_tdpbuud"), "tile_dot_tdpbusd"
)
"""Dot instructions that are not measured, as another one is as fast."""


@dataclass(frozen=True)
class MachineLimits:
    """Measured limits of a machine for a number of threads.

    Attributes:
        threads: Threads that worked together.
        flop_rate: float32 operations a second; a fused multiply-add is two.
        levels: The memory, nearest level first.
        dots: Rates of the other dot instructions that the processor has.
    """

    threads: int
    flop_rate: float
    levels: tuple[MemoryLevel, ...]
    dots: tuple[DotRate, ...] = ()

    def level_for(self, size_bytes: float) -> MemoryLevel:
        """Return the nearest level that holds *size_bytes*."""
        fitting = (level for level in self.levels[:-1] if size_bytes <= level.all_bytes)
        return next(fitting, self.levels[-1])

    def dot_rate(self, dot: str) -> DotRate | None:
        """Return the rate of a kernel's dot instruction; None if multiply-adds are its peak."""
        name = _AS_FAST.get(dot, dot)
        return next((rate for rate in self.dots if rate.dot == name), None)

    def with_peaks(self, rates: Mapping[str, float]) -> MachineLimits:
        """Return these limits with other peaks, operations a second by the names of instructions.

        The empty name is that of multiply-adds of float32.
        """
        dots = tuple(
            DotRate(rate.dot, rates.get(rate.dot, rate.operation_rate)) for rate in self.dots
        )
        return replace(self, flop_rate=rates.get("", self.flop_rate), dots=dots)

    def arithmetic_seconds(self, flops: float, dot: str = "") -> float:
        """Return the least time for *flops* operations, of a kernel with the instruction *dot*."""
        rate = self.dot_rate(dot)
        return flops / (rate.operation_rate if rate else self.flop_rate)

    def memory_bound(
        self, read_bytes: float, written_bytes: float, constant_bytes: float, resident_bytes: float
    ) -> tuple[float, str]:
        """Return the least time for the traffic of one kernel, and the level that takes most of it.

        Activations are in the level that holds all bytes of the kernel, since an earlier kernel
        has just made them. Constants have to come from the level that holds *resident_bytes*, all
        that a run touches: between two uses of a weight lies the whole network.
        """
        near = self.level_for(read_bytes + written_bytes + constant_bytes)
        far = self.level_for(resident_bytes)
        moved, fetched = near.seconds(read_bytes, written_bytes), far.seconds(constant_bytes, 0)
        return moved + fetched, near.name if moved >= fetched else far.name
