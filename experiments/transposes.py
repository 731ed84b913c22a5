"""How near do transposes come to a copy of the same bytes?

Each shape of a table is turned over by the kernel that the compiler makes for it, and copied, by
our kernel and by NumPy; the faster copy counts. Bytes are counted once read and once written::

    python -m experiments.transposes --threads 1 2
    python -m experiments.transposes --only squares layouts
    python -m experiments.transposes --output docs/transposes.md

prints both rates and their ratio; the last one writes a page with the ratios as well. Small
tensors stay in the caches, as between two layers of a network. Measure on a quiet machine; the
first run compiles the kernels.

What keeps a transpose from the rate of a copy, in one word for each row of the table, as found on
Zen 4 (vectors of 32 bytes; caches of 32 KiB in 64 places of 8 lines, and of 1 MiB):

- ``shuffles``: 32 bytes of a result take 3, 4 or 5 of them for elements of 4, 2 or 1 bytes, two a
  cycle: 2.5 cycles for bytes, while a copy within the second-level cache takes 2.7. The two overlap
  in part only: about 0.7 is the most for bytes.
- ``places``: lines of rows that lie 4 KiB apart go to one place of the first-level cache. Read 2
  lines of a row at a time, such rows come at 30 GB/s, 4 lines at 58; they are written 4 lines at a
  time at 27 GB/s, 8 lines at 60. A block of 64 x 128 ``float32`` takes the whole cache, so that
  a part of it makes a second trip to the next one: 0.6. Software prefetching into the first level,
  copying out one block while the next is turned over, reading along diagonals, and loads that wait
  for those before were no better. Rows that lie a little more or less than 4 KiB apart
  (sides of 1023 or 1025) have lines that cross, too: they want 8 and 16 lines: 0.3 to 0.45.
- ``lines``: of rows of odd lengths, every other load and store is of two lines, each of which takes
  its turn. Written along rows of the result, parts of a line follow each other.
- ``memory``: the result is written past the caches, from scratch.
- ``caches``: none of these; the rate of the cache that the tensors fit in.
- ``runs``: a few elements that stay together are copied at a time, 3 bytes as 2 and 1.
- ``copy``: so are many, by a loop of vectors.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from math import prod
from pathlib import Path

import numpy as np

from glow_nb.alignment import aligned_empty
from glow_nb.codegen.entry import Call, Region
from glow_nb.codegen.loaded_program import load
from glow_nb.codegen.make_native_program import make_native_program
from glow_nb.codegen.native_program import Binding, OutputBinding
from glow_nb.codegen.program_memory import ProgramMemory
from glow_nb.kernels.cpu_kernels import generate_kernel
from glow_nb.kernels.target import Target
from glow_nb.kernels.transposes.plan import Blocks, Way
from glow_nb.kernels.transposes.transpose import is_zipped, matrix_of
from glow_nb.kernels.writing.source import KernelSource
from glow_nb.llir.instructions.shape import CopyInst, TransposeInst
from glow_nb.llir.program import Buffer, Instruction
from glow_nb.types import Array, ElementKind, TensorType

Case = tuple[str, tuple[int, ...], tuple[int, ...], ElementKind]
"""Group, shape, permutation and element kind."""

BY_BYTES = {
    1: ElementKind.INT8,
    2: ElementKind.FLOAT16,
    4: ElementKind.FLOAT32,
    8: ElementKind.FLOAT64,
}
SIDES = (64, 100, 256, 333, 512, 777, 1000, 1023, 1024, 2048, 2049, 4096)
PLANES = ((3, 224, 224), (64, 56, 56), (256, 56, 56), (512, 28, 28), (1024, 14, 14), (2048, 7, 7))
ATTENTION = ((1, 128, 12, 64), (1, 197, 3, 64), (8, 512, 16, 64), (1, 256, 256, 8))
KEYS = ((1, 12, 128, 64), (1, 3, 197, 64), (8, 16, 512, 64))
SHUFFLES = ((28 * 28, 8, 17), (14 * 14, 4, 68), (28 * 28, 2, 58), (56 * 56, 3, 8))
OTHERS = (((2, 1 << 20), (1, 0)), ((1 << 20, 2), (1, 0)), ((1024, 1024, 3), (1, 0, 2)))
MOST_BYTES = 1 << 28
"""Tensors of the table are smaller."""

RUN_SECONDS = 3e-4
"""A run repeats the kernel for about this long, so that starting it does not count."""


def cases() -> Iterator[Case]:
    """Yield the rows of the table."""
    for size, kind in BY_BYTES.items():
        yield from (("squares", (side, side), (1, 0), kind) for side in SIDES)
        if size == 8:
            continue
        for batch in (1, 8):
            for c, h, w in PLANES:
                yield "layouts", (batch, c, h, w), (0, 2, 3, 1), kind
                yield "layouts", (batch, h, w, c), (0, 3, 1, 2), kind
        yield from (("attention", shape, (0, 2, 1, 3), kind) for shape in ATTENTION)
        yield from (("attention", shape, (0, 1, 3, 2), kind) for shape in KEYS)
        yield from (("shuffles", shape, (0, 2, 1), kind) for shape in SHUFFLES)
        yield from (("others", shape, order, kind) for shape, order in OTHERS)


def instruction_of(case: Case) -> TransposeInst:
    """Return the transpose of *case*."""
    _, shape, permutation, kind = case
    turned = tuple(shape[axis] for axis in permutation)
    result, operand = (
        Buffer("dest", TensorType(kind, turned)),
        Buffer("src", TensorType(kind, shape)),
    )
    return TransposeInst(result, operand, permutation=permutation)


def bound(case: Case) -> str:
    """Return what holds up the transpose of *case*, in a word that the module explains."""
    instruction, target = instruction_of(case), Target.host()
    matrix = matrix_of(instruction, target)
    if matrix is None:
        return "copy"
    if matrix.run > 1:
        return "runs"
    if is_zipped(matrix):
        return "shuffles" if matrix.kind.size_bytes < 4 else "caches"
    way = Blocks.of(matrix, target, instruction.dest.type.size_bytes).way
    if way is not Way.ROWS and way is not Way.LINES:
        return "memory" if way is Way.STREAMED else "places"
    if not matrix.has_whole_lines or matrix.src_stride % matrix.line_elements:
        return "lines"
    return "shuffles" if matrix.kind.size_bytes < 4 else "caches"


def clock(
    instruction: Instruction, arrays: Sequence[Array], threads: int, target: Target | None = None
) -> Callable[[], float]:
    """Return a function that returns the seconds of one *instruction* over *arrays*.

    The first array is its result, the others are its operands.
    """
    target = target or Target.host()
    return clock_kernel(generate_kernel(instruction, target), arrays, threads, target)


def clock_kernel(
    source: KernelSource, arrays: Sequence[Array], threads: int, target: Target
) -> Callable[[], float]:
    """Return a function that returns the seconds of one run of a kernel over *arrays*."""
    regions = [
        Region("binding", ElementKind.of(array.dtype), array.nbytes, "in", binding=number)
        for number, array in enumerate(arrays[1:])
    ]
    result, *inputs = arrays
    kind = ElementKind.of(result.dtype)
    regions.insert(0, Region("binding", kind, result.nbytes, "out", binding=len(inputs)))
    repeats = max(1, min(300, int(RUN_SECONDS * 4e10 / result.nbytes)))
    native = make_native_program(
        [Call(source, tuple(regions))] * repeats,
        ProgramMemory(0, aligned_empty(0)),
        [Binding(TensorType.of(array)) for array in inputs],
        [OutputBinding(TensorType.of(result))],
        threads=threads,
        target=target,
    )
    loaded = load(native)

    def seconds() -> float:
        began = time.perf_counter()
        loaded.run_into(inputs, [result])
        return (time.perf_counter() - began) / repeats

    return seconds


def numpy_copy(dest: Array, source: Array) -> float:
    """Return the seconds of a copy by NumPy."""
    began = time.perf_counter()
    np.copyto(dest, source)
    return time.perf_counter() - began


def rates(case: Case, memory: Sequence[Array], threads: int, runs: int) -> tuple[float, float]:
    """Return the bytes a second of a transpose and of a copy: the best of *runs*, in turn."""
    _, shape, _, kind = case
    transposing = instruction_of(case)
    size_bytes = prod(shape) * kind.size_bytes
    dest, source = (block[:size_bytes].view(kind.dtype) for block in memory)
    arrays = dest.reshape(transposing.dest.type.shape), source.reshape(shape)
    clocks = [clock(transposing, arrays, threads)]
    result, operand = (Buffer(name, TensorType(kind, (dest.size,))) for name in ("dest", "src"))
    clocks.append(clock(CopyInst(result, operand), (dest, source), threads))
    rounds = [[each() for each in clocks] for _ in range(runs)]
    transpose, copy = (min(times) for times in zip(*rounds, strict=True))
    if threads == 1:
        copy = min(copy, *(numpy_copy(dest, source) for _ in range(runs)))
    return 2 * size_bytes / transpose, 2 * size_bytes / copy


def page(found: Sequence[tuple[Case, list[float]]], threads: Sequence[int]) -> str:
    """Return the page of Markdown with the ratios of *found*, one for each number of *threads*."""
    columns = [f"{n} thread{'s' if n > 1 else ''}" for n in threads]
    lines = [
        "# Transposes against copies",
        "",
        "Bytes a second of a transpose over those of a copy of the same tensor, between caches or",
        "from memory as it fits, and what holds the transpose up. Measured and explained by",
        "`experiments/transposes.py`.",
        "",
        "| shape | permutation | kind | " + " | ".join(columns) + " | bound |",
        "|---|---|---|" + "---:|" * len(columns) + "---|",
    ]
    for case, ratios in found:
        _, shape, permutation, kind = case
        cells = [" x ".join(map(str, shape)), str(permutation), kind.value]
        cells += [f"{ratio:.2f}" for ratio in ratios]
        lines.append("| " + " | ".join([*cells, bound(case)]) + " |")
    return "\n".join(lines) + "\n"


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    groups = sorted({case[0] for case in cases()})
    parser.add_argument("--only", nargs="+", choices=groups, default=groups)
    parser.add_argument("--bytes", nargs="+", type=int, choices=BY_BYTES, default=list(BY_BYTES))
    parser.add_argument("--threads", nargs="+", type=int, default=[1])
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--output", type=Path, help="page of Markdown to write")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> None:
    """Print the table."""
    options = parse(arguments)
    memory = [aligned_empty(MOST_BYTES) for _ in ("dest", "src")]
    for block in memory:
        block.fill(1)  # the system gives one page of zeros for all that was never written
    print("transpose and copy in GB/s, and their ratio; threads: " + str(options.threads))
    found = []
    for case in cases():
        group, shape, permutation, kind = case
        if group not in options.only or kind.size_bytes not in options.bytes:
            continue
        line = f"{kind.value:8} {' x '.join(map(str, shape)):20} {permutation!s:13}"
        ratios = []
        for threads in options.threads:
            transpose, copy = rates(case, memory, threads, options.runs)
            ratios.append(transpose / copy)
            line += f"  {transpose / 1e9:6.1f} {copy / 1e9:6.1f} {transpose / copy:5.2f}"
        print(f"{line}  {bound(case)}", flush=True)
        found.append((case, ratios))
    if options.output:
        options.output.write_text(page(found, options.threads))


if __name__ == "__main__":
    main()
