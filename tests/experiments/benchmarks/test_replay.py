"""The record of generated texts: the same on any host; what moved is told."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import glow_nb
from experiments.benchmarks.replay import Texts, moved, texts_of
from glow_nb.hlir import ops
from glow_nb.hlir.graph import Function
from glow_nb.kernels.machine.rows import ROWS


def layer(columns: int) -> Function:
    b = glow_nb.Builder()
    w = b.constant("w", np.ones((24, columns), np.float32))
    b.save(b.emit(ops.Relu(b.emit(ops.MatMul(b.input("x", "float32<40 x 24>"), w)))), "y")
    return b.function()


def texts(columns: int, row: str, threads: int = 1) -> Texts:
    def job(writer: glow_nb.Backend, threads: int) -> None:
        glow_nb.compile(layer(columns), backend=writer, threads=threads)

    return texts_of(job, ROWS[row], threads)


@pytest.mark.parametrize("row", ROWS)
def test_texts_are_written_for_every_processor(row: str) -> None:
    found = texts(16, row)
    assert found == texts(16, row)
    assert sum(name.startswith("entry_") for name in found) == 1
    assert len(found) >= 2


def test_what_moved_is_told() -> None:
    record = partial(texts, row="zen3")
    before = {"zen3": {"layer, 1 threads": record(16)}, "zen4": {}}
    assert moved(before, before) == []
    after = {"zen3": {"layer, 1 threads": record(17), "another": {}}}
    first, *rest = moved(before, after)
    assert first == "zen3, layer, 1 threads: 2 of 2 texts moved"
    assert sorted(line[4] for line in rest) == ["+", "+", "-", "-"]
