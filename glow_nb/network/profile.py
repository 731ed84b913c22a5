"""Where the time of a run goes: kernel by kernel, beside what the machine could do at best.

Times come from a second entry, generated like the first one but with a time stamp before and after
each kernel call of each share. Caches, threads and barriers are those of a real run; the ordinary
entry is left as it is, and is run in turn with the other, so that a profile also shows what the
stamps cost.
"""

from __future__ import annotations

import dataclasses
import json
import os
import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from typing_extensions import override

from glow_nb.backends.backend import Timings, kernel_ns
from glow_nb.base.arguments import as_path
from glow_nb.base.costs import InstructionCost
from glow_nb.base.kernel_report import KernelReport
from glow_nb.base.machine_limits import Bound, MachineLimits
from glow_nb.base.quantities import count_of, duration
from glow_nb.base.table import Table, html_text
from glow_nb.base.text import format_name
from glow_nb.base.types import Array
from glow_nb.system.replaced_files import replace_file

NANOSECONDS = 1e-9
NOTABLE = 0.01
"""A kernel with a smaller share says nothing about the machine's limits."""

MOST_NAMES = 4
"""A kernel that is made from more nodes shows only these, and how many more there are."""
MOST_LETTERS = 80
"""A name of a node that is longer is cut."""

SHORTEST_GAP_NS = 500
"""A shorter pause between two kernels is not drawn in a trace."""


@dataclass(frozen=True)
class KernelTime:
    """The time of one kernel of a network.

    Its time in one run is how long at least one of its shares ran.

    Attributes:
        report: The kernel: its instruction, the nodes it came from, family and symbol.
        min_seconds: Shortest time of all runs.
        median_seconds: Median time of all runs.
        share: Its part of the shortest times of all kernels.
        bound: Whether arithmetic or memory limits it; empty if no limits are known.
        limit_seconds: The least time that the machine's measured limits allow; 0 if not known.
        peak: The instruction whose peak is the peak of its arithmetic, in assembler; empty for
            multiply-adds of ``float32``, and if no limits are known.
        level: The level of the memory that takes most of the least time of its bytes; empty if no
            limits are known.
    """

    report: KernelReport
    min_seconds: float
    median_seconds: float
    share: float
    bound: Bound = ""
    limit_seconds: float = 0.0
    peak: str = ""
    level: str = ""

    @property
    def cost(self) -> InstructionCost:
        """Arithmetic and bytes."""
        return self.report.cost

    @property
    def flop_rate(self) -> float:
        """Operations of the operator a second.

        By Winograd's or Strassen's algorithm, they may be more than the machine's peak.
        """
        return self.cost.nominal.flops / self.min_seconds if self.min_seconds else 0.0

    @property
    def executed_flop_rate(self) -> float:
        """Operations really carried out a second."""
        return self.cost.executed.flops / self.min_seconds if self.min_seconds else 0.0

    @property
    def byte_rate(self) -> float:
        """Bytes a second, each byte of an operand counted once."""
        return self.cost.bytes / self.min_seconds if self.min_seconds else 0.0

    @property
    def is_raised(self) -> bool:
        """Return whether the kernel exceeded its limit, which is then raised to what was seen."""
        return self.limit_seconds > self.min_seconds

    @property
    def bound_seconds(self) -> float:
        """The least possible time: that of the limits, or the shortest time if that is less."""
        return min(self.limit_seconds, self.min_seconds)

    @property
    def limit(self) -> str:
        """What limits the kernel, in words: the instruction that sets its peak, or the memory."""
        if self.bound == "memory":
            return f"memory, {self.level}" if self.level else "memory"
        return f"{self.bound} of {self.peak}" if self.peak else self.bound

    @property
    def fraction(self) -> float:
        """Part of the speed that the roofline allows: least possible time over shortest time."""
        return self.bound_seconds / self.min_seconds if self.min_seconds else 0.0


@dataclass(frozen=True, repr=False)
class Profile:
    """Times of all kernels of a network over some runs, as ``net.profile`` returns it.

    Printed as a line of totals and a table of the kernels.

    Attributes:
        network: Name of the network.
        threads: Threads that shared each kernel.
        kernels: One entry for each instruction, in execution order.
        timings: The time stamps themselves.
        limits: The peak rates of the machine; None if they were not requested.
        raised: Instructions whose peak a kernel exceeded, by their names in plans; the empty name
            is that of multiply-adds. Their peak is what that kernel reached.
    """

    network: str
    threads: int
    kernels: tuple[KernelTime, ...]
    timings: Timings = field(repr=False)
    limits: MachineLimits | None = None
    raised: tuple[str, ...] = ()

    @property
    def runs(self) -> int:
        """The number of runs with time stamps."""
        return int(self.timings.stamps.shape[0])

    @property
    def run_seconds(self) -> list[float]:
        """For each run with stamps, the time from the first begin to the last end."""
        return [float(span) * NANOSECONDS for span in _spans(self.timings)]

    @property
    def kernel_seconds(self) -> float:
        """Sum of the median times of the kernels."""
        return sum(kernel.median_seconds for kernel in self.kernels)

    @property
    def cost(self) -> InstructionCost:
        """Arithmetic and bytes of one run."""
        return sum((kernel.cost for kernel in self.kernels), InstructionCost())

    @property
    def beats_limits(self) -> bool:
        """Return whether a kernel that takes its time seems faster than the machine can be."""
        return any(
            kernel.share > NOTABLE and kernel.limit_seconds > 1.05 * kernel.min_seconds
            for kernel in self.kernels
        )

    def with_limits(self, limits: MachineLimits) -> Profile:
        """Return the same times beside other *limits*."""
        reports = [kernel.report for kernel in self.kernels]
        kernels = kernel_times(reports, self.timings, limits)
        return dataclasses.replace(self, kernels=kernels, limits=limits)

    def as_json(self) -> dict[str, Any]:
        """Return everything but the single stamps as numbers and text; times in seconds."""
        return {
            "network": self.network,
            "threads": self.threads,
            "runs": self.runs,
            "run_min_seconds": min(self.run_seconds, default=0.0),
            "run_median_seconds": _median(self.run_seconds),
            "plain_run_min_seconds": min(self.timings.plain_seconds, default=0.0),
            "plain_run_median_seconds": _median(self.timings.plain_seconds),
            "kernel_seconds": self.kernel_seconds,
            "limits": dataclasses.asdict(self.limits) if self.limits else None,
            "raised_peaks": list(self.raised),
            "kernels": [_kernel_json(kernel) for kernel in self.kernels],
        }

    def chrome_trace(self) -> dict[str, Any]:
        """Return one run, that of median length, in the format of ``chrome://tracing``.

        Perfetto (ui.perfetto.dev) opens it as well. Each share is a row, its part of a kernel a
        bar, and the time between two of them a bar called ``wait``, which is spent at barriers
        mostly, or ``between`` if there is but one thread. A share is that of the thread of the same
        number, unless that was late and another one did it.
        """
        return {"traceEvents": list(self._trace_events()), "displayTimeUnit": "ms"}

    def save_trace(self, path: str | os.PathLike[str]) -> None:
        """Write :meth:`chrome_trace` to the file *path*; raise GlowError if it cannot be."""
        text = json.dumps(self.chrome_trace())
        replace_file(as_path(path), lambda place: place.write_text(text, encoding="utf-8"))

    def _trace_events(self) -> Iterator[dict[str, Any]]:
        yield _name_event("process_name", f"{self.network}, threads {self.threads}", 0)
        for thread in range(self.threads):
            yield _name_event("thread_name", f"thread {thread}", thread)
        if not self.kernels or not self.runs:
            return
        spans = _spans(self.timings)
        stamps = self.timings.stamps[int(np.argsort(spans)[len(spans) // 2])]
        begin, gap = _begin(stamps), "wait" if self.threads > 1 else "between"
        for thread, row in enumerate(stamps.tolist()):
            before = begin
            for kernel, (start, end) in zip(self.kernels, row, strict=True):
                if not end:
                    continue  # the share has no part in it
                if start - before >= SHORTEST_GAP_NS:
                    yield _bar(gap, gap, thread, before - begin, start - before, {})
                arguments = _trace_arguments(kernel)
                yield _bar(
                    _title(kernel), kernel.report.family, thread, start - begin, end - start,
                    arguments,
                )  # fmt: skip
                before = end

    @property
    def table(self) -> Table:
        """The kernels in execution order; printed, and in notebooks."""
        return kernel_table(self.kernels)

    def _totals(self) -> str:
        shortest, median = min(self.run_seconds, default=0.0), _median(self.run_seconds)
        return (
            f"{format_name(self.network)}: {count_of(len(self.kernels), 'kernel')}, threads "
            f"{self.threads}, runs {self.runs}, min {duration(shortest)}, median "
            f"{duration(median)}"
        )

    @override
    def __str__(self) -> str:
        return f"{self._totals()}\n{self.table}" if self.kernels else self._totals()

    @override
    def __repr__(self) -> str:
        return f"<Profile {self._totals()}>"

    def _repr_html_(self) -> str:
        """Return the totals and the table of kernels for a notebook."""
        return html_text(self._totals()) + self.table._repr_html_()


def kernel_table(kernels: Iterable[KernelTime]) -> Table:
    """Return the times of *kernels* as a table, a line for each."""
    columns = ("kernel", "made from", "#threads", "#min", "#median", "#share", "#GFLOP/s", "#GB/s")
    return Table((*columns, "#of limit", "limit"), tuple(map(_cells, kernels)))


def _cells(kernel: KernelTime) -> tuple[str, ...]:
    return (
        kernel.report.family,
        _short_list(kernel.report.origins),
        str(kernel.report.threads),
        duration(kernel.min_seconds),
        duration(kernel.median_seconds),
        f"{100 * kernel.share:.1f} %",
        f"{kernel.flop_rate / 1e9:.1f}",
        f"{kernel.byte_rate / 1e9:.1f}",
        f"{100 * kernel.fraction:.0f} %" if kernel.bound else "",
        f"{kernel.limit}, raised" if kernel.is_raised else kernel.limit,
    )


def _short_list(names: Sequence[str]) -> str:
    """Return the first of *names* and how many more there are."""
    shown = ", ".join(format_name(name)[:MOST_LETTERS] for name in names[:MOST_NAMES])
    return f"{shown} and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else shown


def kernel_times(
    reports: Sequence[KernelReport], timings: Timings, limits: MachineLimits | None = None
) -> tuple[KernelTime, ...]:
    """Return the time of each kernel of *reports*, in their order."""
    seconds = kernel_ns(timings.stamps) * NANOSECONDS  # [runs, kernels]
    medians = np.median(seconds, axis=0) if len(seconds) else np.zeros(len(reports))
    minima = seconds.min(axis=0) if len(seconds) else medians
    total = float(minima.sum()) or 1.0
    resident = sum(report.cost.constant_bytes for report in reports) + max(
        (report.cost.bytes for report in reports), default=0
    )
    return tuple(
        _with_bound(
            KernelTime(report, float(least), float(median), float(least) / total), resident, limits
        )
        for report, least, median in zip(reports, minima, medians, strict=True)
    )


def _with_bound(
    kernel: KernelTime, resident_bytes: int, limits: MachineLimits | None
) -> KernelTime:
    """Return *kernel* with what limits it, its least time, and what sets its peak."""
    if limits is None:
        return kernel
    cost, rate = kernel.cost, limits.dot_rate(kernel.report.dot)
    computing = limits.arithmetic_seconds(cost.executed.flops, kernel.report.dot)
    moving, level = limits.memory_bound(
        cost.read_bytes, cost.written_bytes, cost.constant_bytes, resident_bytes
    )
    return dataclasses.replace(
        kernel,
        bound="arithmetic" if computing >= moving else "memory",
        limit_seconds=max(computing, moving),
        peak=rate.instruction if rate else "",
        level=level,
    )


def _spans(timings: Timings) -> Array:
    """Return, for each run, the nanoseconds from the first begin to the last end."""
    stamps = timings.stamps
    if not stamps.size:
        return np.zeros(len(stamps), np.int64)
    return np.array([int(run.max()) - _begin(run) for run in stamps])


def _begin(stamps: Array) -> int:
    """Return the first begin among *stamps*, but for shares without a part in the kernel."""
    begins, ends = stamps[..., 0], stamps[..., 1]
    return int(begins.min(where=ends > 0, initial=ends.max()))


def _median(values: Sequence[float]) -> float:
    return statistics.median(values) if values else 0.0


def _kernel_json(kernel: KernelTime) -> dict[str, Any]:
    report, cost = kernel.report, kernel.cost
    return {
        "origin": report.origin,
        "nodes": list(report.origins),
        "family": report.family,
        "symbol": report.symbol,
        "threads": report.threads,
        "dot": report.dot,
        "instruction": report.instruction,
        "min_seconds": kernel.min_seconds,
        "median_seconds": kernel.median_seconds,
        "share": kernel.share,
        "flops": cost.nominal.flops,
        "executed_flops": cost.executed.flops,
        "constant_bytes": cost.constant_bytes,
        "read_bytes": cost.read_bytes,
        "written_bytes": cost.written_bytes,
        "flop_rate": kernel.flop_rate,
        "byte_rate": kernel.byte_rate,
        "bound": kernel.bound,
        "bound_seconds": kernel.bound_seconds,
        "limit_seconds": kernel.limit_seconds,
        "fraction": kernel.fraction,
    }


def _title(kernel: KernelTime) -> str:
    return ", ".join(kernel.report.origins) or kernel.report.origin or kernel.report.family


def _trace_arguments(kernel: KernelTime) -> dict[str, Any]:
    return {
        "kernel": kernel.report.symbol or kernel.report.family,
        "GFLOP/s": round(kernel.flop_rate / 1e9, 2),
        "GB/s": round(kernel.byte_rate / 1e9, 2),
        "instruction": kernel.report.instruction,
    }


def _name_event(kind: str, name: str, thread: int) -> dict[str, Any]:
    return {"name": kind, "ph": "M", "pid": 1, "tid": thread, "args": {"name": name}}


def _bar(
    name: str, category: str, thread: int, start_ns: int, length_ns: int, arguments: dict[str, Any]
) -> dict[str, Any]:
    return {
        "name": name,
        "cat": category,
        "ph": "X",
        "pid": 1,
        "tid": thread,
        "ts": start_ns / 1e3,
        "dur": length_ns / 1e3,
        "args": arguments,
    }
