"""Columns that are added up in images of open sizes, by all strides, against their operator."""

from __future__ import annotations

from typing import Any

import pytest

from glow_nb.base.types import ElementKind, TensorType
from glow_nb.hlir.ops.windows import Window
from glow_nb.kernels.target import Target
from glow_nb.llir.instructions.columns_to_image import ColumnsToImageInst
from tests.in_turn import marked_rows
from tests.unit.kernels.cases import instruction_of
from tests.unit.kernels.open_cases import check_open, open_size

N, H, W = open_size("n", 2), open_size("h", 9, low=3), open_size("w", 53, low=5)
SETS = [
    {"n": n, "h": h, "w": w}
    for n, h, w in ((2, 9, 53), (1, 3, 5), (3, 4, 8), (1, 7, 32), (1, 12, 131))
]

CASES: list[tuple[Any, ...]] = [
    ((H, W), (3, 3), (1, 1), (1, 1, 1, 1), (1, 1)),
    ((H, W), (4, 4), (2, 2), (1, 1, 1, 1), (1, 1)),
    ((H, W + 2), (3, 5), (2, 3), (0, 2, 1, 0), (1, 2)),  # no power of two: by way of scratch
    ((6, W), (2, 9), (4, 4), (0, 8, 0, 0), (1, 1)),
    ((H, 37), (3, 3), (2, 2), (1, 1, 1, 1), (1, 1)),  # blocks of a known line
    ((W + 20,), (20,), (10,), (5, 5), (1,)),  # line by line
    ((H, 4, W), (2, 3, 3), (2, 1, 2), (1, 0, 1, 0, 1, 1), (1, 2, 1)),
]


@pytest.mark.jit
@pytest.mark.parametrize(
    ("image", "kernel", "stride", "pads", "dilation"), marked_rows(CASES, only=CASES[1:3])
)
@pytest.mark.parametrize("lanes", [4, pytest.param(8, marks=pytest.mark.slow)])
def test_image_of_open_sizes_is_that_of_its_operator(
    image: tuple[int, ...],
    kernel: tuple[int, ...],
    stride: tuple[int, ...],
    pads: tuple[int, ...],
    dilation: tuple[int, ...],
    lanes: int,
) -> None:
    window = Window(kernel, stride, pads, dilation)
    type = TensorType(ElementKind.FLOAT32, (N, 3, *kernel, *window.places(image)))
    add_up = instruction_of(ColumnsToImageInst, [type], image=image, **window.attributes)
    check_open(add_up, SETS, Target.host(lanes), ulp=16, absolute=1e-5)
