"""Memory of large results: it serves the next run once nobody can reach the array."""

from __future__ import annotations

import gc
from concurrent.futures import ThreadPoolExecutor

import ml_dtypes
import numpy as np
import pytest

import glow_nb
from glow_nb.base.alignment import ALIGNMENT
from glow_nb.base.types import Array
from glow_nb.codegen.result_memory import array_maker
from glow_nb.hlir.ops import Neg
from glow_nb.system.freed_memory import MAPPED_BYTES

pytestmark = pytest.mark.jit

ROWS = MAPPED_BYTES // 4096
"""Rows of 1,024 ``float32`` that are a large result."""
SHAPE = (ROWS, 1024)
FLOAT32 = np.dtype(np.float32)


def address(array: Array) -> int:
    """Return where *array* begins."""
    return int(array.ctypes.data)


def test_memory_of_a_large_array_serves_the_next_one() -> None:
    new_array = array_maker(FLOAT32, SHAPE)
    first = new_array()
    place = address(first)
    del first
    assert address(new_array()) == place


def test_memory_that_a_view_shows_is_not_given_away() -> None:
    new_array = array_maker(FLOAT32, SHAPE)
    first = new_array()
    first[:] = 1.0
    view = first[5:, ::2].T[3:]
    part = first[7]
    del first
    gc.collect()
    second = new_array()
    second[:] = 2.0
    assert not np.shares_memory(second, part)
    assert (part == 1.0).all()
    assert not np.shares_memory(second, view)
    assert (view == 1.0).all()


def test_of_many_arrays_one_is_kept() -> None:
    new_array = array_maker(FLOAT32, SHAPE)
    arrays = [new_array() for _ in range(4)]
    assert len({address(array) for array in arrays}) == 4
    last = address(arrays[-1])
    while arrays:
        del arrays[0]
    assert address(new_array()) == last


@pytest.mark.parametrize(
    "dtype", [np.bool_, np.uint8, np.float16, ml_dtypes.bfloat16, np.int64, np.complex128]
)
def test_arrays_are_like_those_of_numpy(dtype: type) -> None:
    shape = (3, MAPPED_BYTES // 3 + 1)
    array = array_maker(np.dtype(dtype), shape)()
    assert (array.dtype, array.shape) == (np.dtype(dtype), shape)
    assert array.flags.c_contiguous
    assert array.flags.writeable
    assert address(array) % ALIGNMENT == 0


@pytest.mark.parametrize("shape", [(), (0, 5), (2, 3), (MAPPED_BYTES // 4 - 1,)])
def test_small_arrays_own_their_memory(shape: tuple[int, ...]) -> None:
    array = array_maker(FLOAT32, shape)()
    assert array.flags.owndata
    assert array.shape == shape


@pytest.fixture(name="net")
def network() -> glow_nb.Network:
    """Return one with a large result."""
    builder = glow_nb.Builder("negative")
    builder.save(builder.emit(Neg(builder.input("x", f"float32<{ROWS} x 1024>"))), "y")
    return glow_nb.compile(builder.function(), threads=1)


def test_results_of_many_threads_are_apart(net: glow_nb.Network) -> None:
    def is_right(number: int) -> bool:
        feeds = {"x": np.full(SHAPE, number, np.float32)}
        results = [net.run(feeds)["y"] for _ in range(3)]
        return all((result == -number).all() for result in results)

    with ThreadPoolExecutor(3) as pool:
        assert all(pool.map(is_right, range(1, 7)))


def test_a_network_takes_the_memory_of_its_last_result(net: glow_nb.Network) -> None:
    feeds = {"x": np.ones(SHAPE, np.float32)}
    assert len({address(net.run(feeds)["y"]) for _ in range(4)}) == 1
    held = [net.run(feeds)["y"] for _ in range(4)]
    assert len({address(result) for result in held}) == 4


def test_a_program_that_is_gone_leaves_its_results() -> None:
    new_array = array_maker(FLOAT32, SHAPE)
    result = new_array()
    result[:] = -1.0
    del new_array
    gc.collect()
    assert (result == -1.0).all()
