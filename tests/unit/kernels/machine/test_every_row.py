"""Kernels are planned and written for every machine on any host; nothing is compiled."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

import glow_nb
from experiments.benchmarks.replay import Job, Writer, texts_of
from glow_nb.hlir import ops
from glow_nb.hlir.graph import Function
from glow_nb.hlir.ops.windows import Window
from glow_nb.kernels.machine.machine import Machine
from glow_nb.kernels.machine.rows import ROWS
from glow_nb.train import SGD, SoftmaxCrossEntropy, Trainer


def convolution(kind: str) -> Function:
    b = glow_nb.Builder(f"convolution_{kind}")
    x = b.input("x", f"{kind}<1 x 14 x 14 x 32>")
    is_float = kind == "float32"
    weights = b.constant("w", np.ones((32, 3, 3, 32), kind if is_float else np.int8))
    bias = b.constant("b", np.zeros(32, kind if is_float else np.int32))
    window = Window((3, 3), (1, 1), (1, 1, 1, 1), (1, 1)).attributes
    y = b.emit(ops.Convolution(x, weights, bias, **window))
    b.save(b.emit(ops.Relu(y)) if is_float else y, "y")
    return b.function()


def product() -> Function:
    b = glow_nb.Builder("product")
    weights = b.constant("w", np.ones((96, 80), np.float32))
    y = b.emit(ops.MatMul(b.input("x", "float32<40 x 96>"), weights))
    b.save(b.emit(ops.MatMul(y, b.input("z", "float32<80 x 33>"))), "y")
    return b.function()


def attention() -> Function:
    b = glow_nb.Builder("attention")
    q, k, v = (b.input(name, "float32<1 x 2 x 48 x 16>") for name in "qkv")
    b.save(b.emit(ops.Attention(q, k, v, None, scale=0.25, masked_rows="zero")), "y")
    return b.function()


def inference(function: Function, backend: Writer, threads: int) -> None:
    glow_nb.compile(function, backend=backend, threads=threads)


def training_step(backend: Writer, threads: int) -> None:
    b = glow_nb.Builder("classifier")
    x = b.input("x", "float32<8 x 20>")
    weights = b.constant("w", np.full((20, 5), 0.1, np.float32))
    b.save(b.emit(ops.MatMul(x, weights)), "y")
    trainer = Trainer(
        b.function(),
        loss=SoftmaxCrossEntropy(),
        optimizer=SGD(0.1, momentum=0.9),
        backend=backend,
        threads=threads,
    )
    trainer.step({"x": np.ones((8, 20), np.float32)}, np.zeros(8, np.int64))


JOBS: dict[str, Job] = {
    "convolution": partial(inference, convolution("float32")),
    "convolution of bytes": partial(inference, convolution("uint8")),
    "product": partial(inference, product()),
    "attention": partial(inference, attention()),
    "training step": training_step,
}


@pytest.mark.parametrize("job", JOBS)
@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_kernels_are_written(row: Machine, job: str) -> None:
    texts = texts_of(JOBS[job], row, threads=2)
    assert any(name.startswith("entry_") for name in texts)
    assert len(texts) >= 2


@pytest.mark.parametrize("size", [256 << 10, 1 << 20, 4 << 20])
def test_kernels_are_written_for_caches_of_any_size(size: int) -> None:
    for row in ROWS.values():
        assert texts_of(JOBS["convolution"], replace(row, l2_bytes=size), threads=2)


def test_rows_decide_on_texts() -> None:
    """The numbers of a row are read, and not those of the host."""
    texts = {name: frozenset(texts_of(JOBS["product"], row, 1)) for name, row in ROWS.items()}
    assert texts["zen3"] != texts["zen4"]
    assert texts["simd128"] != texts["avx2"]
