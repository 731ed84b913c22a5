"""Programs whose sizes are known only when they run: one program for all sizes."""

from __future__ import annotations

import numpy as np
import pytest

from glow_nb.base.errors import FeedError
from glow_nb.base.size import Symbol
from glow_nb.base.types import ElementKind, TensorType
from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Function
from tests.open_programs import check_sizes, compiled

FLOAT32 = ElementKind.FLOAT32


def _softmaxes() -> Function:
    batch = Symbol("batch", 32, 1, 512).size
    builder = Builder("softmaxes")
    x = builder.input("x", TensorType(FLOAT32, (batch, 64)))
    first = builder.emit(ops.Softmax(x, axis=1))
    builder.save(builder.emit(ops.Softmax(first, axis=1)), "y")
    return builder.function()


@pytest.mark.parametrize("threads", [1, 2])
def test_one_program_runs_for_all_sizes(threads: int) -> None:
    check_sizes(_softmaxes(), [{"batch": n} for n in (1, 32, 5, 100)], threads=threads, tolerance=0)


def test_sizes_outside_of_their_range_are_refused() -> None:
    executable = compiled(_softmaxes())
    with pytest.raises(FeedError, match=r"513, which is outside its range 1\.\.512"):
        executable.run([np.zeros((513, 64), np.float32)])


def test_shapes_of_no_size_are_refused() -> None:
    executable = compiled(_softmaxes())
    with pytest.raises(FeedError, match=r"\(3, 65\), but it is float32<batch x 64>"):
        executable.run([np.zeros((3, 65), np.float32)])


def test_matrices_of_open_rows_that_lie_apart_are_transposed_first() -> None:
    batch, length = (Symbol(name, 2, 1, 64).size for name in ("batch", "length"))
    builder = Builder("heads")
    heads = TensorType(FLOAT32, (batch, length, 2, 8))
    x, z = builder.input("x", heads), builder.input("z", heads)
    left = builder.emit(ops.Transpose(x, (0, 2, 1, 3)))
    right = builder.emit(ops.Transpose(z, (0, 2, 3, 1)))
    builder.save(builder.emit(ops.MatMul(left, right)), "y")
    check_sizes(builder.function(), [{"batch": 3, "length": 9}])


def test_an_open_part_of_known_indices_is_gathered() -> None:
    length = Symbol("length", 4, 1, 64).size
    builder = Builder("places")
    table = builder.constant("table", np.arange(128, dtype=np.float32).reshape(64, 2))
    places = builder.constant("places", np.arange(64)[::-1].copy())
    some = builder.emit(ops.Slice(places, (0,), (length,), (1,)))
    x = builder.input("x", TensorType(FLOAT32, (length, 2)))
    rows = builder.emit(ops.Gather(table, some, axis=0))
    builder.save(builder.emit(ops.Add(x, rows)), "y")
    check_sizes(builder.function(), [{"length": 1}, {"length": 64}], tolerance=0)
