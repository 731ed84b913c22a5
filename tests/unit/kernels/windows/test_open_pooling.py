"""Pools of images whose sizes only the run knows, against their operators."""

from __future__ import annotations

from typing import Any

import pytest

from glow_nb.base.types import ElementKind, TensorType
from glow_nb.llir.instructions.pooling import AvgPoolInst, MaxPoolInst, MaxPoolWithArgmaxInst
from glow_nb.llir.program import Instruction
from tests.in_turn import marked
from tests.targets import SMALL_CORE
from tests.unit.kernels.cases import instruction_of
from tests.unit.kernels.open_cases import Sizes, check_open, open_size

SETS: list[Sizes] = [{"b": 1, "h": 9, "w": 7}, {"b": 2, "h": 20, "w": 33}, {"b": 3, "h": 6, "w": 5}]
MEAN = (AvgPoolInst, {"count_padding": False})
MAXIMUM: tuple[type[Instruction], dict[str, Any]] = (MaxPoolInst, {})
POOLS: list[tuple[tuple[type[Instruction], dict[str, Any]], tuple[Any, ...]]] = [
    (MAXIMUM, (24, (3, 3), (2, 2), (1, 1, 1, 1))),
    (MEAN, (37, (3, 3), (2, 1), (0, 1, 1, 0))),
    (MAXIMUM, (20, (13, 13), (1, 1), (6, 6, 6, 6))),  # scanned
    (MEAN, (1, (3, 5), (1, 2), (1, 2, 1, 2))),  # vectors along the row
    (MAXIMUM, (1, (2, 2), (2, 2), (0, 0, 0, 0))),  # along the row as the mean
    ((AvgPoolInst, {"count_padding": True}), (8, (2, 3), (2, 2), (0, 0, 0, 0))),
    ((MaxPoolWithArgmaxInst, {"column_major": False}), (8, (3, 2), (2, 2), (1, 0, 1, 0))),
]
HINTS = {"few": (1, 6, 6), "many": (4, 112, 160)}


@pytest.mark.jit
@pytest.mark.parametrize("hints", ["few", pytest.param("many", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "pool", marked(POOLS, POOLS[4:5]), ids=lambda pool: f"{pool[0][0].__name__}{pool[1]}"
)
def test_one_kernel_pools_images_of_all_sizes(pool: Any, hints: str) -> None:
    (form, more), (channels, kernel, stride, pads) = pool
    lows = (1, 3, 3)
    batch, *sizes = [open_size(*size) for size in zip("bhw", HINTS[hints], lows, strict=True)]
    rounded = [(3 * size + 1) // 2 for size in sizes]  # as windows with strides leave them
    windows = {"kernel": kernel, "stride": stride, "pads": pads, "dilation": (1, 1)}
    image = TensorType(ElementKind.FLOAT32, (batch, *rounded, channels))
    instruction = instruction_of(form, [image], **windows, **more)
    check_open(instruction, SETS, SMALL_CORE, threads=(1, 2), absolute=1e-6)
