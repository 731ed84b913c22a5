"""Memory of results that live a moment is the system's again when they are gone."""

import mmap
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from glow_nb.base.types import ElementKind, TensorType
from glow_nb.system.freed_memory import KEPT_BYTES, MAPPED_BYTES, mapped_empty

STATM = Path("/proc/self/statm")


@pytest.mark.parametrize("size", [0, 3, KEPT_BYTES // 4, MAPPED_BYTES // 4 + 1])
def test_an_array_is_of_its_type_and_can_be_written(size: int) -> None:
    array = mapped_empty(TensorType(ElementKind.FLOAT32, (size, 1)))
    array[...] = 2
    assert (array.dtype, array.shape) == (np.dtype(np.float32), (size, 1))
    assert array.flags.c_contiguous
    assert (array == 2).all()


def test_a_large_array_takes_what_is_written_of_it_and_leaves_nothing_with_a_thread() -> None:
    if not STATM.exists():
        pytest.skip("the system does not tell resident memory")
    size = 16 * KEPT_BYTES
    with ThreadPoolExecutor(1) as pool:
        held, left = pool.submit(_made_and_freed, size).result()
    assert size * 7 / 8 < held < size * 5 / 4
    assert left < size / 8


def _made_and_freed(size: int) -> tuple[int, int]:
    """Return the memory that the process has more while an array of *size* bytes lives, and after.

    An array of the same size is freed before, from which glibc learns to keep such sizes.
    """
    np.ones(size, np.uint8)
    before = _resident()
    array = mapped_empty(TensorType(ElementKind.UINT8, (size,)))
    array[...] = 1
    held = _resident()
    del array
    return held - before, _resident() - before


def _resident() -> int:
    return int(STATM.read_text(encoding="ascii").split()[1]) * mmap.PAGESIZE
