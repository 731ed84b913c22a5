"""Measure the peak rates of this machine, with small generated kernels.

``arithmetic`` keeps enough independent fused multiply-adds in registers to fill the pipelines. So
do the loops of :mod:`glow_nb.codegen.dot_loops` with the other dot instructions that there are.
``read`` sums a block of memory again and again, ``copy`` moves one half of it to the other; blocks
of half a cache give the rate of that cache, a block far larger than all caches that of the DRAM.
There, a copy that writes past the caches is measured, too: it is spared reading what it writes.
Every thread has a block of its own. The best of several tries counts. Measuring takes well under a
second; results are kept in the cache folder, one file for each number of threads, and belong to the
machine with the same processor and caches. A cache that seems slower than the next one was measured
while something else ran, and is measured again.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import json
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from glow_nb.base.alignment import CACHE_LINE_BYTES, aligned_bytes, aligned_empty
from glow_nb.base.machine_limits import DotRate, MachineLimits, MemoryLevel
from glow_nb.base.types import Array, ElementKind, TensorType
from glow_nb.codegen import dot_loops
from glow_nb.codegen.dot_loops import DOT_LOOPS, DotLoop
from glow_nb.codegen.entry import Call, Region
from glow_nb.codegen.load_native import load
from glow_nb.codegen.make_native_program import make_native_program
from glow_nb.codegen.program_memory import ProgramMemory
from glow_nb.codegen.run_layout import Binding, OutputBinding
from glow_nb.kernels.target import Target
from glow_nb.kernels.writing.source import KernelSource, SourceWriter
from glow_nb.system.cache_folder import default_folder, write_whole
from glow_nb.system.host_caches import available_processors, caches_of_all, cores_of
from glow_nb.system.regular_files import read_text

MEBIBYTE = 2**20
FLOAT_BYTES = 4
CHAINS = 12
"""Independent sums of the arithmetic kernel: more than latency times units of any processor, and
few enough for 16 registers."""

START = 2
"""The first sum. A sum that starts at 1 stays 1, as 1 / 2 + 1 / 2 is, and LLVM removes it."""

STREAMS = 8
"""Vectors of one step of the memory kernels."""

TRIES = 12
TRY_SECONDS = 0.002
"""Short tries, so that on a busy machine some of them are not interrupted."""

LAST_CACHE = 3
"""Number of the level that cores share if nothing else is known."""

BLOCK_LIMIT_BYTES = 256 * MEBIBYTE

MOST_REPEATS = 3
"""How often limits are measured again that cannot be right."""

_KINDS = (ElementKind.FLOAT32, ElementKind.INT64)


def machine_limits(
    threads: int, target: Target | None = None, *, measure_again: bool = False
) -> MachineLimits:
    """Return the limits of this machine for *threads* threads, measured now or earlier.

    With *measure_again* they are measured now, and the larger of each rate found so far counts: a
    machine that was busy with other work then did not show its limits.
    """
    return _limits(threads, target or Target.host(), measure_again=measure_again, beaten=False)


def limits_that_were_beaten(threads: int, target: Target | None = None) -> MachineLimits:
    """Return the limits of this machine, which a kernel seems to have beaten.

    Nothing is faster than the machine: something else ran when its limits were measured, and they
    are measured again. This is done once; a kernel that beats those, too, has its bytes nearer than
    the model of the memory assumes.
    """
    target = target or Target.host()
    path = _path(threads, target)
    again = path is None or not _were_beaten(path)
    return _limits(threads, target, measure_again=again, beaten=True)


def _limits(threads: int, target: Target, *, measure_again: bool, beaten: bool) -> MachineLimits:
    path = _path(threads, target)
    found = _load(path, threads) if path is not None else None
    if found is not None and not measure_again:
        return found
    limits = measure_limits(threads, target)
    limits = limits if found is None else larger_rates(limits, found)
    for _ in range(MOST_REPEATS):
        if _is_plausible(limits):
            break
        limits = larger_rates(limits, measure_limits(threads, target))
    if path is not None:
        stored = dataclasses.asdict(limits) | {"beaten": beaten}
        write_whole(path, json.dumps(stored, indent=2).encode())
    return limits


def _is_plausible(limits: MachineLimits) -> bool:
    """Return whether no level of the memory is much slower than the next one."""
    rates = [level.read_rate for level in limits.levels]
    return all(near >= 0.9 * far for near, far in itertools.pairwise(rates))


def larger_rates(limits: MachineLimits, others: MachineLimits) -> MachineLimits:
    """Return *limits* with the larger of each rate; both have the same levels."""
    levels = zip(limits.levels, others.levels, strict=True)
    dots = zip(limits.dots, others.dots, strict=True)
    return MachineLimits(
        limits.threads,
        max(limits.flop_rate, others.flop_rate),
        tuple(
            dataclasses.replace(
                one,
                read_rate=max(one.read_rate, other.read_rate),
                copy_rate=max(one.copy_rate, other.copy_rate),
                streamed_rate=max(one.streamed_rate, other.streamed_rate),
            )
            for one, other in levels
        ),
        tuple(max(pair, key=lambda rate: rate.operation_rate) for pair in dots),
    )


def measure_limits(threads: int, target: Target) -> MachineLimits:
    """Measure the limits of this machine now."""
    levels = _levels(threads, target)
    blocks = [level.all_bytes // 2 // threads for level in levels[:-1]]
    blocks.append(min(4 * target.machine.l3_bytes, BLOCK_LIMIT_BYTES) // threads)
    probes = MemoryProbes(threads, target, max(blocks))
    *near, far = zip(levels, blocks, strict=True)
    return MachineLimits(
        threads,
        _arithmetic_rate(target, threads),
        (
            *(probes.measured(level, block) for level, block in near),
            dataclasses.replace(
                probes.measured(*far), streamed_rate=probes.streamed_copy.byte_rate(far[1])
            ),
        ),
        tuple(
            DotRate(loop.dot, _dot_rate(loop, target, threads))
            for loop in DOT_LOOPS
            if loop.is_there(target)
        ),
    )


class MemoryProbes:
    """Kernels that read and copy blocks of memory, a block for each thread."""

    def __init__(self, threads: int, target: Target, block_bytes: int) -> None:
        """Make them, and the memory for blocks of at most *block_bytes*."""
        memory = _memory(threads, block_bytes)
        texts = _memory_texts(target)
        self.read, self.copy, self.streamed_copy = (
            _Probe(_source(text, memory.shape[1]), target, memory) for text in texts
        )

    def measured(self, level: MemoryLevel, block_bytes: int) -> MemoryLevel:
        """Return *level* with the rates of blocks of *block_bytes*."""
        rates = self.read.byte_rate(block_bytes), self.copy.byte_rate(block_bytes)
        return dataclasses.replace(level, read_rate=rates[0], copy_rate=rates[1])


def _levels(threads: int, target: Target) -> list[MemoryLevel]:
    """Return the levels of the memory without rates, nearest first.

    There are no more caches than the processors of this process have, however many threads run.
    Where cores differ, the smallest of their caches is shown.
    """
    machine = target.machine
    processors = available_processors()
    found = caches_of_all(processors)
    levels: list[MemoryLevel] = []
    for number, size in enumerate((machine.l1_bytes, machine.l2_bytes, machine.l3_bytes), 1):
        caches = [cache for cache in found if cache.level == number]
        if caches:
            size = min(size, *(cache.size_bytes for cache in caches))
            cores = max(len(cores_of(cache.processors)) for cache in caches)
            count = min(threads, len(caches))
        elif found:
            continue  # the processor has no such level
        else:  # the system tells nothing: each core has its own, but for the last
            cores, count = 0, min(threads, len(processors)) if number < LAST_CACHE else 1
        levels.append(MemoryLevel(f"L{number}", size, 0.0, 0.0, cores, count))
    return [*levels, MemoryLevel("DRAM", 0, 0.0, 0.0)]


def _memory(threads: int, block_bytes: int) -> Array:
    """Return a row for each thread, aligned to cache lines.

    It is written once: the system gives one page of zeros for all that was never written.
    """
    row_bytes = aligned_bytes(block_bytes)
    memory = aligned_empty(threads * row_bytes).view(np.float32).reshape(threads, -1)
    memory.fill(1.0)
    return memory


class _Probe:
    """A kernel over one block of memory for each thread, with two numbers as parameters."""

    def __init__(
        self, source: KernelSource, target: Target, memory: Array, code: bytes | None = None
    ) -> None:
        """Load the kernel of *source*, or *code* that defines its symbol, over *memory*."""
        numbers = TensorType(ElementKind.INT64, (2,))
        operands = (
            Region("binding", ElementKind.FLOAT32, memory.nbytes, "inout", binding=1),
            Region("binding", ElementKind.INT64, numbers.size_bytes, "in", binding=0),
        )
        self._memory = memory
        self._threads = memory.shape[0]
        native = make_native_program(
            [Call(source, operands)],
            ProgramMemory(0, aligned_empty(0)),
            [Binding(numbers)],
            [OutputBinding(TensorType.of(memory))],
            threads=self._threads,
            target=target,
        )
        if code is not None:
            native = dataclasses.replace(native, objects={**native.objects, source.symbol: code})
        self._loaded = load(native)

    def byte_rate(self, block_bytes: int) -> float:
        """Return the bytes a second that all threads touch in blocks of about *block_bytes*."""
        steps = max(1, block_bytes // FLOAT_BYTES // STREAMS // 16)
        touched = steps * 16 * STREAMS * FLOAT_BYTES * self._threads
        return touched / self.seconds(steps)

    def seconds(self, steps: int) -> float:
        """Return the least time of one repetition with *steps* steps."""
        count = 1
        while (taken := self._run(count, steps)) < TRY_SECONDS and count < 1 << 30:
            count = max(2 * count, int(count * TRY_SECONDS / max(taken, 1e-7)))
        return min(taken, *(self._run(count, steps) for _ in range(TRIES))) / count

    def _run(self, count: int, steps: int) -> float:
        began = time.perf_counter()
        self._loaded.run_into([np.array([count, steps], np.int64)], [self._memory])
        return time.perf_counter() - began


def _arithmetic_rate(target: Target, threads: int) -> float:
    """Return the fused multiply-adds of all threads, two operations each, a second."""
    memory = _memory(threads, CHAINS * target.lanes * FLOAT_BYTES)
    probe = _Probe(arithmetic_source(target), target, memory)
    steps = 4096
    return 2 * CHAINS * target.lanes * steps * threads / probe.seconds(steps)


def _dot_rate(loop: DotLoop, target: Target, threads: int) -> float:
    """Return the operations of *loop* of all threads a second."""
    source, steps = arithmetic_source(target), 512
    memory = _memory(threads, CHAINS * target.lanes * FLOAT_BYTES)
    probe = _Probe(source, target, memory, loop.object_code(source.symbol, target))
    return loop.operations(target) * steps * threads / probe.seconds(steps)


def arithmetic_source(target: Target) -> KernelSource:
    """Return the kernel that does ``CHAINS`` independent fused multiply-adds in each step.

    Its arguments are a result of as many vectors, and two numbers: repetitions, and steps of each.
    """

    def body(out: SourceWriter) -> None:
        with out.block("for step in range(get(numbers, 1)):"):
            for chain in range(CHAINS):
                out.line(f"sum{chain} = fma(sum{chain}, factor, factor)")

    return _source(_kernel_text(body, CHAINS, target.lanes), CHAINS * target.lanes)


def _memory_texts(target: Target) -> tuple[str, str, str]:
    """Return the texts of the kernels that read a block, copy one half of it, and stream one."""
    lanes, row = target.lanes, 16 * STREAMS
    vectors = row // lanes

    def read(out: SourceWriter) -> None:
        with out.block("for step in range(get(numbers, 1)):"):
            for vector in range(vectors):
                place = f"step * {row} + {vector * lanes}"
                chain = vector % STREAMS
                out.line(f"sum{chain} = add(sum{chain}, load(own, {place}, {lanes}))")

    def copy(out: SourceWriter, store: str = "store", lanes: int = lanes) -> None:
        out.line("half = get(numbers, 1) // 2")
        with out.block("for step in range(half):"):
            for place in range(0, row, lanes):
                to = f"step * {row} + {place}"
                out.line(f"{store}(own, {to}, load(own, {to} + half * {row}, {lanes}))")

    def stream(out: SourceWriter) -> None:
        copy(out, "store_streaming", CACHE_LINE_BYTES // FLOAT_BYTES)
        out.line("fence()")

    return (
        _kernel_text(read, STREAMS, lanes),
        _kernel_text(copy, 0, lanes),
        _kernel_text(stream, 0, lanes),
    )


def _source(text: str, stride: int) -> KernelSource:
    """Return the kernel of *text* whose threads have blocks *stride* numbers apart."""
    return KernelSource("machine_limit", text.replace("STRIDE", str(stride)), _KINDS)


def _kernel_text(body: Callable[[SourceWriter], None], sums: int, lanes: int) -> str:
    """Return a kernel that does *body* as often as the first number says, and keeps its sums."""
    out = SourceWriter()
    with out.block("def kernel(block, numbers, scratch, thread, threads):"):
        out.line("own = at(block, thread * STRIDE)")
        out.line(f"factor = splat_float32(0.5, {lanes})")
        for chain in range(sums):
            out.line(f"sum{chain} = splat_float32({START + chain}.0, {lanes})")
        with out.block("for repetition in range(get(numbers, 0)):"):
            body(out)
        for chain in range(sums):
            out.line(f"store(own, {chain * lanes}, sum{chain})")
    return out.text


def _path(threads: int, target: Target) -> Path | None:
    folder = default_folder()
    parts = (
        target,
        _levels(threads, target),
        *(Path(file).read_text(encoding="utf-8") for file in (__file__, dot_loops.__file__)),
        _processor(),
    )
    digest = hashlib.sha256(repr(parts).encode()).hexdigest()[:20]
    return folder / f"limits-{threads}.{digest}.json" if folder else None


def _processor() -> str:
    """Return the model name of the processor, where the system reports it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    return next((line for line in lines if line.startswith("model name")), "")


def _were_beaten(path: Path) -> bool:
    """Return whether the limits stored at *path* were measured because others had been beaten."""
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(stored, dict) and stored.get("beaten") is True


def _load(path: Path, threads: int) -> MachineLimits | None:
    """Return the limits stored at *path*; None if there are none that make sense."""
    try:
        stored = json.loads(read_text(path))
        levels = tuple(
            MemoryLevel(
                str(level["name"]),
                int(level["size_bytes"]),
                float(level["read_rate"]),
                float(level["copy_rate"]),
                int(level["cores"]),
                int(level["caches"]),
                float(level["streamed_rate"]),
            )
            for level in stored["levels"]
        )
        dots = tuple(
            DotRate(str(rate["dot"]), float(rate["operation_rate"])) for rate in stored["dots"]
        )
        limits = MachineLimits(int(stored["threads"]), float(stored["flop_rate"]), levels, dots)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    rates = [limits.flop_rate, *(r for level in levels for r in (level.read_rate, level.copy_rate))]
    rates += [rate.operation_rate for rate in dots]
    return limits if levels and limits.threads == threads and min(rates) > 0 else None
