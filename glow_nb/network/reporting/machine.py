"""The machine that a report was measured on, with the limits that its kernels are compared with."""

from __future__ import annotations

from collections.abc import Collection

from glow_nb.base.machine_limits import MachineLimits, MemoryLevel
from glow_nb.base.quantities import byte_count, scaled
from glow_nb.report.data import Roof

MULTIPLY_ADDS = "multiply-adds of float32"


def roof_of(limits: MachineLimits, raised: Collection[str]) -> Roof:
    """Return *limits*, the peaks of whose *raised* instructions are what a kernel reached."""
    peaks = {"": (MULTIPLY_ADDS, limits.flop_rate)}
    peaks |= {rate.dot: (rate.instruction, rate.operation_rate) for rate in limits.dots}
    return Roof(
        peaks=tuple(peaks.values()),
        levels=tuple((level.name, level.read_rate) for level in limits.levels),
        raised=tuple(peaks[dot][0] for dot in raised),
        machine=(*_processor(limits), *map(_memory, limits.levels)),
    )


def _processor(limits: MachineLimits) -> tuple[tuple[str, str], ...]:
    from glow_nb.kernels.target import Target  # imports LLVM, for which no --help should wait

    target = Target.host()
    return (
        ("processor", f"{target.cpu}, {target.lanes} lanes of float32"),
        ("row of the cost model", target.machine.title),
        ("threads", str(limits.threads)),
    )


def _memory(level: MemoryLevel) -> tuple[str, str]:
    """Return what of the memory it is, and its bandwidths with all threads together."""
    size = f", {byte_count(level.size_bytes)}" if level.size_bytes else ""
    count = f" x {level.caches}" if level.caches > 1 else ""
    rates = f"read {scaled(level.read_rate, 'B/s')}, write {scaled(level.write_rate, 'B/s')}"
    return f"{level.name}{size}{count}", rates
