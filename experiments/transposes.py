"""How near do transposes come to a copy of the same bytes?

Each shape of a table is turned over by the kernel that the compiler makes for it, and copied, by
our kernel and by NumPy; the faster copy counts. Bytes are counted once read and once written::

    python -m experiments.transposes --threads 1 2
    python -m experiments.transposes --only squares layouts

prints both rates and their ratio. Small tensors stay in the caches, as between two layers of a
network. Measure on a quiet machine; the first run compiles the kernels.

What keeps a transpose from the rate of a copy, as found on Zen 4 with vectors of 32 bytes:

- Shuffles, in the caches. 32 bytes of a result take 3, 4 or 5 of them for elements of 4, 2 or 1
  bytes, about one a cycle, while a copy takes a load and a store: one byte a time, half its rate.
- Places of the first-level cache. Where rows lie 4 KiB apart, lines of all rows go to the same
  place, and each is waited for; the way through scratch then costs a second trip: 0.55 to 0.65.
- Lines that rows of odd lengths share: a load across two lines that are both far takes as long as
  several others, and of each line of the source two blocks read a part: 0.5 from memory.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from math import prod

import numpy as np

from glow_nb.codegen.entry import Call, Region
from glow_nb.codegen.executable import Binding, Executable
from glow_nb.codegen.threads import aligned_empty
from glow_nb.kernels.generate import generate_kernel
from glow_nb.kernels.target import Target
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
SIDES = (64, 100, 256, 333, 512, 1000, 1024, 2048, 2049, 4096)
PLANES = ((3, 224, 224), (64, 56, 56), (256, 56, 56), (512, 28, 28), (1024, 14, 14), (2048, 7, 7))
ATTENTION = ((1, 128, 12, 64), (1, 197, 3, 64), (8, 512, 16, 64), (1, 256, 256, 8))
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
        yield from (("shuffles", shape, (0, 2, 1), kind) for shape in SHUFFLES)
        yield from (("others", shape, order, kind) for shape, order in OTHERS)


def clock(instruction: Instruction, arrays: Sequence[Array], threads: int) -> Callable[[], float]:
    """Return a function that returns the seconds of one *instruction* over *arrays*."""
    target = Target.host()
    source = generate_kernel(instruction, target)
    kind, size_bytes = ElementKind.of(arrays[0].dtype), arrays[0].nbytes
    regions = (
        Region("binding", kind, size_bytes, "out", binding=0),
        Region("binding", kind, size_bytes, "in", binding=1),
    )
    bindings = [
        Binding(TensorType.of(arrays[0]), is_output=True),
        Binding(TensorType.of(arrays[1])),
    ]
    repeats = max(1, min(300, int(RUN_SECONDS * 4e10 / arrays[0].nbytes)))
    executable = Executable(
        [Call(source, regions)] * repeats,
        aligned_empty(0),
        0,
        bindings,
        threads=threads,
        target=target,
        progress=False,
    )

    def seconds() -> float:
        began = time.perf_counter()
        executable.run(arrays)
        return (time.perf_counter() - began) / repeats

    return seconds


def numpy_copy(dest: Array, source: Array) -> float:
    """Return the seconds of a copy by NumPy."""
    began = time.perf_counter()
    np.copyto(dest, source)
    return time.perf_counter() - began


def rates(case: Case, memory: Sequence[Array], threads: int, runs: int) -> tuple[float, float]:
    """Return the bytes a second of a transpose and of a copy: the best of *runs*, in turn."""
    _, shape, permutation, kind = case
    size_bytes = prod(shape) * kind.size_bytes
    dest, source = (block[:size_bytes].view(kind.dtype) for block in memory)
    turned = tuple(shape[axis] for axis in permutation)
    arrays = dest.reshape(turned), source.reshape(shape)
    result, operand = (
        Buffer("dest", TensorType(kind, turned)),
        Buffer("src", TensorType(kind, shape)),
    )
    clocks = [clock(TransposeInst(result, operand, permutation=permutation), arrays, threads)]
    result, operand = (Buffer(name, TensorType(kind, (dest.size,))) for name in ("dest", "src"))
    clocks.append(clock(CopyInst(result, operand), (dest, source), threads))
    rounds = [[each() for each in clocks] for _ in range(runs)]
    transpose, copy = (min(times) for times in zip(*rounds, strict=True))
    if threads == 1:
        copy = min(copy, *(numpy_copy(dest, source) for _ in range(runs)))
    return 2 * size_bytes / transpose, 2 * size_bytes / copy


def main(arguments: list[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    groups = sorted({case[0] for case in cases()})
    parser.add_argument("--only", nargs="+", choices=groups, default=groups)
    parser.add_argument("--bytes", nargs="+", type=int, choices=BY_BYTES, default=list(BY_BYTES))
    parser.add_argument("--threads", nargs="+", type=int, default=[1])
    parser.add_argument("--runs", type=int, default=7)
    options = parser.parse_args(arguments)
    memory = [aligned_empty(MOST_BYTES) for _ in ("dest", "src")]
    for block in memory:
        block.fill(1)  # the system gives one page of zeros for all that was never written
    print("transpose and copy in GB/s, and their ratio; threads: " + str(options.threads))
    for case in cases():
        group, shape, permutation, kind = case
        if group not in options.only or kind.size_bytes not in options.bytes:
            continue
        line = f"{kind.value:8} {' x '.join(map(str, shape)):20} {permutation!s:13}"
        for threads in options.threads:
            transpose, copy = rates(case, memory, threads, options.runs)
            line += f"  {transpose / 1e9:6.1f} {copy / 1e9:6.1f} {transpose / copy:5.2f}"
        print(line, flush=True)


if __name__ == "__main__":
    main()
