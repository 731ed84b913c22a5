"""What the cpu backend plans before it compiles."""

from __future__ import annotations

import pytest

import glow_nb
from glow_nb.hlir import ops


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
