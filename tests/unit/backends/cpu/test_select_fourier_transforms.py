"""How Fourier transforms are computed where sizes are open."""

import pytest

from glow_nb.backends.cpu.select_fourier_transforms import select_fourier_transforms
from glow_nb.base.open_size_error import OpenSizeError
from glow_nb.base.size import Symbol
from glow_nb.base.types import ElementKind, TensorType
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Function
from glow_nb.hlir.ops import FourierTransform, MatMul
from glow_nb.kernels.machine.rows import ROWS
from glow_nb.kernels.operators import FastFourier
from glow_nb.kernels.target import Target
from tests.open_programs import check_sizes

ZEN3 = Target.of(ROWS["zen3"])


def _transform(count: int, length: int) -> Function:
    builder = Builder("transform")
    x = builder.input("x", TensorType(ElementKind.FLOAT32, (count, length, 2)))
    builder.save(builder.emit(FourierTransform(x, length=length)), "y")
    return builder.function()


def _open() -> int:
    size: int = Symbol("n", 300, 1, 400).size
    return size


@pytest.mark.parametrize(("length", "chosen"), [(8, MatMul), (3000, FastFourier)])
def test_an_open_number_of_sequences_is_that_of_the_example(length: int, chosen: type) -> None:
    selected = select_fourier_transforms(_transform(_open(), length), target=ZEN3)
    assert any(isinstance(node, chosen) for node in selected.nodes)
    assert not any(isinstance(node, FourierTransform) for node in selected.nodes)


@pytest.mark.jit
def test_any_number_of_sequences_is_transformed() -> None:
    check_sizes(_transform(_open(), 97), [{"n": n} for n in (1, 3)], tolerance=1e-4)


def test_an_open_length_is_named() -> None:
    with pytest.raises(OpenSizeError, match=r"size n.* a number is needed for .*fourier_transform"):
        select_fourier_transforms(_transform(2, _open()), target=ZEN3)
