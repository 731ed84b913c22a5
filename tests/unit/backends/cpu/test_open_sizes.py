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
