"""What a compiled network holds on to, and that running it takes nothing more."""

from __future__ import annotations

import gc
import mmap
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import glow_nb
from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Function
from tests.in_turn import marked_rows
from tests.unit.codegen.samples import run_python

KIB = 1024


def dense(columns: int) -> Function:
    """Return ``relu(x w + b)``; the weights are nobody else's."""
    b = Builder()
    x = b.input("x", f"float32<1 x {columns}>")
    w = b.constant("w", np.random.default_rng(0).random((columns, columns), np.float32))
    bias = b.constant("bias", np.full(columns, 0.5, np.float32))
    made = b.emit(ops.FullyConnected(x, w, bias))
    b.save(b.emit(ops.Relu(made)), "y")
    return b.function()


def resident_bytes() -> int:
    """Return the bytes of this process that lie in memory now; 0 where the system does not say."""
    statm = Path("/proc/self/statm")
    if not statm.exists():
        return 0
    return int(statm.read_text(encoding="ascii").split()[1]) * mmap.PAGESIZE


@pytest.fixture
def _traced() -> Iterator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


@pytest.mark.jit
@pytest.mark.usefixtures("_traced")
@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
def test_the_weights_are_kept_once(backend: str) -> None:
    glow_nb.compile(dense(8), backend=backend, threads=1)  # what any first network leaves behind
    gc.collect()
    before, _ = tracemalloc.get_traced_memory()
    net = glow_nb.compile(dense(1024), backend=backend, threads=1)
    gc.collect()
    after, _ = tracemalloc.get_traced_memory()
    assert net.memory.constant_bytes >= 4096 * KIB
    assert after - before < net.memory.constant_bytes + net.memory.arena_bytes + 512 * KIB


@pytest.mark.jit
def test_function_and_program_still_hold_their_numbers() -> None:
    function = dense(40)
    x = np.random.default_rng(1).random((1, 40), np.float32)
    expected = glow_nb.evaluate(function, {"x": x})["y"]
    net = glow_nb.compile(function, threads=1)
    assert net.function is not None
    again = glow_nb.compile(net.program, backend="interpreter")
    np.testing.assert_allclose(again.run(x)["y"], expected, rtol=1e-5)
    np.testing.assert_allclose(glow_nb.evaluate(net.function, {"x": x})["y"], expected, rtol=1e-5)
    for weight in net.program.weights:
        with pytest.raises(ValueError, match="read-only"):
            weight.array[...] = 0


def growth_of_runs(threads: int, runs: int) -> tuple[int, int]:
    """Return by how many bytes what Python holds, and the process, grow in so many runs."""
    net = glow_nb.compile(dense(40), threads=threads)
    x = np.ones((1, 40), np.float32)
    tracemalloc.start()
    for _ in range(100):
        net.run(x)
    gc.collect()
    traced, resident = tracemalloc.get_traced_memory()[0], resident_bytes()
    for _ in range(runs):
        net.run(x)
    gc.collect()
    return tracemalloc.get_traced_memory()[0] - traced, resident_bytes() - resident


SCRIPT = """
from tests.end_to_end.test_network_memory import growth_of_runs
print(*growth_of_runs(threads={threads}, runs={runs}))
"""


@pytest.mark.jit
@pytest.mark.parametrize(
    ("threads", "runs"), marked_rows([(2, 2_000), (2, 10_000), (1, 10_000)], only=[(2, 2_000)])
)
def test_many_runs_take_no_memory(tmp_path: Path, threads: int, runs: int) -> None:
    """In a process of its own: what other tests leave behind does not end while it counts.

    One object that each of 2,000 runs left behind would be 32 KiB. The slow run has more, and also
    a single thread, which does what each of two does.
    """
    script = SCRIPT.format(threads=threads, runs=runs)
    traced, resident = map(int, run_python(script, tmp_path).split())
    assert traced < 16 * KIB
    assert resident < 1024 * KIB
