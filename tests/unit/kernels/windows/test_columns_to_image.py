"""Columns that are added up in images of every rank, by all strides, against their operator."""

from typing import Any

import numpy as np
import pytest

import glow_nb
from glow_nb.backends.cpu.backend import CpuBackend
from glow_nb.base.types import ElementKind, TensorType
from glow_nb.hlir import ops
from glow_nb.hlir.evaluate import evaluate
from glow_nb.hlir.ops.windows import Window
from glow_nb.kernels.target import Target
from glow_nb.llir.instructions.columns_to_image import ColumnsToImageInst
from glow_nb.llir.program import Instruction
from tests.in_turn import each_with_one_width, left_out
from tests.unit.kernels.cases import COMPUTED, check, instruction_of

FLOAT32 = ElementKind.FLOAT32


def _image(
    image: tuple[int, ...],
    kernel: tuple[int, ...],
    stride: tuple[int, ...],
    pads: tuple[int, ...],
    dilation: tuple[int, ...],
    kind: ElementKind = FLOAT32,
) -> Instruction:
    window = Window(kernel, stride, pads, dilation)
    type = TensorType(kind, (2, 3, *kernel, *window.places(image)))
    return instruction_of(ColumnsToImageInst, [type], image=image, **window.attributes)


CASES: list[tuple[Any, ...]] = [
    ((5, 53), (3, 3), (1, 1), (1, 1, 1, 1), (1, 1)),
    ((9, 37), (4, 4), (2, 2), (1, 1, 1, 1), (1, 1)),
    ((7, 31), (3, 5), (2, 3), (0, 2, 1, 0), (1, 2)),  # no power of two: by way of scratch
    ((6, 50), (2, 9), (4, 4), (0, 3, 0, 0), (1, 2)),  # remainders that no tap meets
    ((41,), (20,), (10,), (5, 5), (1,)),  # line by line
    ((90,), (35,), (1,), (17, 17), (2,)),  # more taps at the ends than are written out
    ((3, 4, 11), (2, 3, 3), (2, 1, 2), (1, 0, 1, 0, 1, 1), (1, 2, 1)),
    ((2, 3, 2, 5), (1, 2, 1, 2), (1, 1, 1, 1), (0,) * 8, (1, 1, 1, 1)),
    ((4, 3), (3, 3), (1, 8), (1, 1, 1, 1), (1, 1)),  # fewer elements than the stride
    ((0, 3), (1, 1), (1, 1), (1, 0, 0, 0), (1, 1)),
]


@pytest.mark.jit
@pytest.mark.parametrize(("case", "lanes"), each_with_one_width(CASES, slow=left_out(2, CASES)))
def test_image_is_that_of_its_operator(case: tuple[Any, ...], lanes: int) -> None:
    check(_image(*case), Target.host(lanes), ulp=16, absolute=1e-5, specials=False)


NUMBERS = [kind for kind in COMPUTED if kind is not ElementKind.BOOL]


@pytest.mark.jit
@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, marks=pytest.mark.slow if number % 4 else ())
        for number, kind in enumerate(NUMBERS)
    ],
)
def test_image_of_every_kind(kind: ElementKind) -> None:
    image, kernel, stride, pads, dilation = CASES[2]
    instruction = _image(image, kernel, stride, pads, dilation, kind)
    check(instruction, Target.host(), ulp=16, absolute=1e-5, specials=False)


@pytest.mark.jit
@pytest.mark.parametrize("stride", [2, 3, pytest.param(12, marks=pytest.mark.slow)])
def test_elementwise_work_is_a_part_of_its_kernel(stride: int) -> None:
    window = Window((4, 4), (1, stride), (1, 1, 1, 1), (1, 1))
    image = (6, 29)
    b = glow_nb.Builder("image")
    shape = (1, 3, 4, 4, *window.places(image))
    x = b.input("x", f"float32<{' x '.join(map(str, shape))}>")
    rng = np.random.default_rng(0)
    bias = b.constant("bias", rng.standard_normal((1, 3, 1, 1)).astype(np.float32))
    total = b.emit(ops.ColumnsToImage(x, image=image, **window.attributes))
    b.save(b.emit(ops.Relu(b.emit(ops.Add(total, bias)))), "y")
    function, feeds = b.function(), {"x": rng.standard_normal(shape).astype(np.float32)}
    net = glow_nb.compile(function, backend=CpuBackend(Target.host()), threads=2)
    assert len(net.kernels) == 1
    np.testing.assert_allclose(net.run(feeds)["y"], evaluate(function, feeds)["y"], atol=1e-5)
