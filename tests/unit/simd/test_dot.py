"""How dots are written: steps in a row, and what they fetch ahead for the dots after them."""

from dataclasses import replace

import pytest

from glow_nb.codegen.compile import compile_assembly
from glow_nb.kernels.target import Target
from glow_nb.kernels.writing.source import KernelSource
from glow_nb.simd.dot import TURNS
from glow_nb.types import ElementKind

FLOAT32 = ElementKind.FLOAT32


def hints(pace: int) -> int:
    """Return how often the code of a dot of one row brings a line nearer, unrolled as it may be."""
    text = (
        "def kernel(dest, x, w, scratch, thread, threads):\n"
        "    t = tile_fill(dest, 0, 1, 1, 4)\n"
        f"    t = tile_dot(t, x, 0, 1, 1, w, 0, 4, 4, threads, 64, {pace})\n"
        "    tile_store(dest, 0, 4, t)\n"
    )
    target = replace(Target.host(4), cpu="x86-64", features="+sse2")
    source = KernelSource("dot", text, (FLOAT32, FLOAT32, FLOAT32))
    return compile_assembly(source, target).count("prefetcht1")


@pytest.mark.jit
def test_every_line_of_the_next_weights_is_fetched() -> None:
    assert hints(0) == 0
    one = hints(16)  # floats of a line of 64 bytes
    assert one > 0
    assert [hints(pace) for pace in (4, 32, 40, 64)] == [one, 2 * one, 3 * one, 4 * one]


@pytest.mark.jit
@pytest.mark.parametrize(
    ("count", "steps"),
    [(str(3 * TURNS), TURNS), (str(3 * TURNS + 1), TURNS), ("threads", TURNS + 1)],
)
def test_steps_are_written_in_a_row(count: str, steps: int) -> None:
    text = (
        "def kernel(dest, x, w, scratch, thread, threads):\n"
        "    t = tile_fill(dest, 0, 3, 2, 8)\n"
        f"    t = tile_dot(t, x, 0, 100, 1, w, 0, 16, 16, {count}, 0, 0)\n"
        "    tile_store(dest, 0, 16, t)\n"
    )
    target = replace(Target.host(8), cpu="x86-64", features="+avx,+avx2,+fma")
    source = KernelSource("dot", text, (FLOAT32, FLOAT32, FLOAT32))
    assert compile_assembly(source, target).count("vfmadd") == 6 * steps
