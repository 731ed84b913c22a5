"""How dots are written: steps in a row, and what they fetch ahead for the dots after them."""

from dataclasses import replace

import pytest

from glow_nb.base.types import ElementKind
from glow_nb.codegen.compile import compile_assembly
from glow_nb.kernels.target import Target
from glow_nb.kernels.writing.source import KernelSource
from glow_nb.simd.dot import TURNS

FLOAT32 = ElementKind.FLOAT32


def assembly(tile: str, dot: str, features: str) -> str:
    """Return the code of a *dot* that is added to a zero *tile* of so many rows, vectors, lanes."""
    text = (
        "def kernel(dest, x, w, scratch, thread, threads):\n"
        f"    t = tile_fill(dest, 0, {tile})\n"
        f"    t = tile_dot(t, x, 0, {dot})\n"
        "    tile_store(dest, 0, 16, t)\n"
    )
    lanes = int(tile.rpartition(", ")[2])
    target = replace(Target.host(lanes), cpu="x86-64", features=features)
    return compile_assembly(KernelSource("dot", text, (FLOAT32, FLOAT32, FLOAT32)), target)


def hints(pace: int) -> int:
    """Return how often the code of a dot of one row brings a line nearer, unrolled as it may be."""
    text = assembly("1, 1, 4", f"1, 1, w, 0, 4, 4, threads, 64, {pace}", "+sse2")
    return text.count("prefetcht1")


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
    text = assembly("3, 2, 8", f"100, 1, w, 0, 16, 16, {count}, 0, 0", "+avx,+avx2,+fma")
    assert text.count("vfmadd") == 6 * steps
