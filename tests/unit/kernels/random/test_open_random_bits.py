"""Random numbers of tensors of open sizes: those that a tensor of each size has."""

from __future__ import annotations

import pytest

from glow_nb.base.types import ElementKind, TensorType
from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Function
from glow_nb.kernels.target import Target
from glow_nb.llir.instructions.random import RandomBitsInst
from glow_nb.numerics.philox import GENERATOR
from tests.open_programs import check_sizes
from tests.unit.kernels.cases import instruction_of
from tests.unit.kernels.open_cases import check_open, open_size

FLOAT32, FLOAT64 = ElementKind.FLOAT32, ElementKind.FLOAT64
N, M = open_size("n", 5), open_size("m", 37)
SIZES = [{"n": n, "m": m} for n, m in ((5, 37), (1, 1), (3, 7), (16, 130), (101, 1))]


def _function() -> Function:
    builder = Builder()
    generator = builder.input("generator", GENERATOR)
    x = builder.input("x", TensorType(FLOAT32, (N, M)))
    row = builder.input("row", TensorType(FLOAT32, (1, M)))
    normal = builder.emit(ops.RandomNormal(generator, (N, M), stream=1))
    drawn = [
        ops.Dropout(x, generator, 0.25),
        ops.Add(normal, builder.emit(ops.Broadcast(row, (N, M)))),  # the rows lie apart
        ops.RandomUniform(generator, (N, 3, M), FLOAT64, low=-2.0, stream=2),
        ops.Bernoulli(row, generator, stream=3),
        ops.RandomBits(generator, (N, 6), stream=4),
    ]
    for number, node in enumerate(drawn):
        builder.save(builder.emit(node), f"y{number}")
    return builder.function()


@pytest.mark.jit
@pytest.mark.parametrize("shape", [(N, M), (N, 6, M)])
def test_words_of_an_open_shape(shape: tuple[int, ...]) -> None:
    words = instruction_of(RandomBitsInst, [GENERATOR], shape=shape, stream=4)
    check_open(words, SIZES, Target.host(8))


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
def test_numbers_are_those_of_a_program_of_each_size(threads: int) -> None:
    check_sizes(_function(), SIZES, threads=threads, tolerance=0)
