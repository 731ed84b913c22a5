"""What does it cost to share a kernel among threads, and from which size on does it pay?

Kernels that depend on each other in a row run with each kernel made by one thread, and with each
shared. What sharing costs is how much longer a shared kernel takes than its part of the lone time;
where the two times meet, sharing begins to pay. Shares read what the same thread has written, or in
another table what another one has: the kernels of networks lie between. The arithmetic is little,
so that the path of the data from core to core shows. ``glow_nb/codegen/sharing.py`` has the prices
that plans are made with::

    python -m experiments.benchmarks.sharing --threads 2
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from functools import partial

import numpy as np

from experiments.arguments import thread_count
from experiments.benchmarks.timing import times_in_turn
from glow_nb.base.alignment import aligned_empty
from glow_nb.base.types import ElementKind, TensorType
from glow_nb.codegen.entry import Call, Region
from glow_nb.codegen.load_native import load
from glow_nb.codegen.loaded_program import LoadedProgram
from glow_nb.codegen.make_native_program import make_native_program
from glow_nb.codegen.program_memory import ProgramMemory
from glow_nb.codegen.run_layout import Binding, OutputBinding
from glow_nb.kernels.target import Target
from glow_nb.kernels.writing.source import KernelSource

FLOAT32 = ElementKind.FLOAT32
DEPTH = 40
ROUNDS = 400
SIZES = (64, 128, 256, 512, 1024, 2048, 4096, 8192)
"""Bytes of a tensor, in vectors."""


def kernel(vectors: int, lanes: int, *, crosses: bool) -> KernelSource:
    """Return ``y[i] = sqrt(x[i]) + 1``, or of ``x[-1 - i]`` if data cross to other threads."""
    place = f"{vectors - 1} - i" if crosses else "i"
    text = f"""
def kernel(dest, input, scratch, thread, threads):
    for i in range({vectors} * thread // threads, {vectors} * (thread + 1) // threads):
        x = load(input, ({place}) * {lanes}, {lanes})
        store(dest, i * {lanes}, add(sqrt(x), splat_float32(1.0, {lanes})))
"""
    return KernelSource("roots", text, (FLOAT32, FLOAT32))


def chain(vectors: int, threads: int, *, alone: bool, crosses: bool) -> LoadedProgram:
    """Return :data:`DEPTH` kernels in a row, made by one thread or shared.

    The last is shared in any case, so that both programs start the same threads.
    """
    target = Target.host()
    size_bytes = vectors * target.lanes * FLOAT32.size_bytes
    source = kernel(vectors, target.lanes, crosses=crosses)

    def place(step: int) -> Region:
        if step in (0, DEPTH):
            return Region("binding", FLOAT32, size_bytes, "in", binding=int(step > 0))
        return Region("arena", FLOAT32, size_bytes, "in", offset_bytes=step % 2 * size_bytes)

    calls = [
        Call(
            source, (replace(place(step + 1), mode="out"), place(step)), alone and step < DEPTH - 1
        )
        for step in range(DEPTH)
    ]
    tensor = TensorType(FLOAT32, (vectors * target.lanes,))
    native = make_native_program(
        calls,
        ProgramMemory(2 * size_bytes, aligned_empty(0)),
        [Binding(tensor)],
        [OutputBinding(tensor)],
        threads=threads,
    )
    return load(native)


def kernel_ns(vectors: int, threads: int, *, crosses: bool) -> tuple[float, float]:
    """Return the nanoseconds of a kernel that one thread makes, and of one that is shared."""
    programs = [chain(vectors, threads, alone=a, crosses=crosses) for a in (True, False)]
    x = np.ones(programs[0].layout.inputs[0].type.shape, np.float32)
    # each twice: in the second run its threads are awake, its data in the caches
    runs = [partial(program.run, [x]) for program in programs for _ in range(2)]
    times = times_in_turn(runs, ROUNDS)
    lone, shared = (min(found) * 1e9 / DEPTH for found in (times[1], times[3]))
    return lone, shared


def main() -> None:
    """Print a line for each size."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--threads", type=thread_count, default=2, help="that share")
    threads = parser.parse_args().threads
    machine = Target.host().machine
    barrier = machine.barrier_ns + machine.barrier_thread_ns * threads
    print(f"a barrier of {threads} threads is planned with as {barrier:.0f} ns")
    for crosses in (False, True):
        print(f"shares read what {'another' if crosses else 'the same'} thread has written:")
        for vectors in SIZES:
            lone, shared = kernel_ns(vectors, threads, crosses=crosses)
            print(
                f"{vectors:6d} vectors   one thread {lone:8.0f} ns   shared {shared:8.0f} ns"
                f"   sharing costs {shared - lone / threads:6.0f} ns"
            )


if __name__ == "__main__":
    main()
