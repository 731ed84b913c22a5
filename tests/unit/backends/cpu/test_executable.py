"""What the cpu backend plans before it compiles."""

from __future__ import annotations

import numpy as np
import pytest

import glow_nb
from glow_nb.backends.backend import PlannedMemory
from glow_nb.backends.cpu.backend import CpuBackend
from glow_nb.hlir import ops
from glow_nb.network.compilation import build_program, lower_for


@pytest.mark.jit
@pytest.mark.parametrize(("rows", "threads"), [(16, 2), (1, 1)])
def test_a_kernel_without_vectors_is_shared_for_the_time_that_it_takes(
    rows: int, threads: int
) -> None:
    b = glow_nb.Builder("main")
    x = b.input("x", f"float32<{rows} x 1000>")
    values, indices = b.emit(ops.TopK(x, k=2, axis=1)).results
    b.save(values, "values")
    b.save(indices, "indices")
    net = glow_nb.compile(b.function(), threads=2)
    assert [kernel.threads for kernel in net.kernels] == [threads]


@pytest.mark.jit
def test_a_kernel_that_one_thread_does_is_not_shared() -> None:
    b = glow_nb.Builder("main")
    places, count = b.emit(ops.NonZero(b.input("x", "float32<100000>"))).results
    b.save(places, "places")
    b.save(count, "count")
    net = glow_nb.compile(b.function(), threads=2)
    assert [kernel.threads for kernel in net.kernels] == [1]


@pytest.mark.jit
@pytest.mark.usefixtures("sharing_is_free")
@pytest.mark.parametrize("threads", [1, 2])
def test_planned_memory_is_what_the_executable_takes(threads: int) -> None:
    b = glow_nb.Builder("main")
    x = b.input("x", "float32<1 x 9 x 10 x 16>")
    w = b.constant("w", np.ones((5, 3, 3, 16), np.float32))
    bias = b.constant("b", np.ones(5, np.float32))
    sizes = {"kernel": (3, 3), "stride": (1, 1), "pads": (1, 1, 1, 1), "dilation": (1, 1)}
    b.save(b.emit(ops.Convolution(x, w, bias, group=1, **sizes)), "y")  # type: ignore[arg-type]
    backend = CpuBackend(threads=threads)
    program = build_program(lower_for(b.function(), backend), backend)
    planned = backend.planned_memory(program, threads=threads)
    made = backend.compile(program, threads=threads)
    assert planned.scratch_bytes > 0
    assert planned == PlannedMemory(made.constant_bytes, made.scratch_bytes)
