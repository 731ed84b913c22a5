"""Memory begins where it should, and sizes are rounded up to the next such place."""

import pytest

from glow_nb.base.alignment import ALIGNMENT, CACHE_LINE_BYTES, aligned_bytes, aligned_empty


@pytest.mark.parametrize("size", [0, 1, 63, 4096])
def test_aligned_memory(size: int) -> None:
    memory = aligned_empty(size)
    assert memory.nbytes == size
    assert size == 0 or memory.ctypes.data % ALIGNMENT == 0


def test_sizes_are_rounded_up() -> None:
    assert [aligned_bytes(size) for size in (0, 1, 63, 64, 65)] == [0, 64, 64, 64, 128]
    assert ALIGNMENT % CACHE_LINE_BYTES == 0
