"""The kernel of random words, with every width of vectors and number of threads."""

from __future__ import annotations

import numpy as np
import pytest

from glow_nb.kernels.cpu_kernels import generate_kernel
from glow_nb.kernels.target import Target
from glow_nb.llir.instructions.random import RandomBitsInst
from glow_nb.numerics.philox import GENERATOR
from tests.in_turn import each_with_one_width
from tests.unit.kernels.cases import check, instruction_of

GENERATORS = [np.array([0, 0]), np.array([-3, 2**40 + 5])]


@pytest.mark.jit
@pytest.mark.parametrize(
    ("size", "lanes"), each_with_one_width([1, 2, 3, 5, 63, 64, 65, 1021], only=[1, 65, 1021])
)
def test_words_are_those_of_the_operator(size: int, lanes: int) -> None:
    instruction = instruction_of(RandomBitsInst, [GENERATOR], shape=(size,), stream=2**32 - 1)
    for generator in GENERATORS:
        check(instruction, Target.host(lanes), operands=[generator])


@pytest.mark.parametrize("shape", [(0,), (3, 0, 2)])
def test_nothing_is_made_of_no_elements(shape: tuple[int, ...]) -> None:
    instruction = instruction_of(RandomBitsInst, [GENERATOR], shape=shape)
    assert "random_words" not in generate_kernel(instruction, Target.host()).text
