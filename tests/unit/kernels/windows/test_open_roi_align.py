"""RoiAlign of open images, and of any number of boxes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from glow_nb.base.types import Array, ElementKind, TensorType
from glow_nb.kernels.target import Target
from glow_nb.llir.instructions.regions import RoiAlignInst
from tests.in_turn import marked
from tests.unit.kernels.cases import instruction_of, random_array
from tests.unit.kernels.open_cases import check_open, open_size
from tests.unit.kernels.windows.test_roi_align import BOXES

N, H, W = (open_size(name, hint) for name, hint in (("n", 2), ("h", 7), ("w", 9)))
BOX_COUNT = open_size("boxes", 5, low=0)
SETS = [
    {"n": n, "h": h, "w": w, "boxes": boxes}
    for n, h, w, boxes in ((2, 7, 9, 11), (1, 1, 1, 3), (3, 40, 2, 5), (1, 5, 17, 0))
]


def _operands(instruction: Any) -> list[Array]:
    rng = np.random.default_rng(5)
    x = random_array(rng, instruction.input.type, specials=False)
    count = instruction.batch.type.size
    return [x, BOXES[:count].astype(x.dtype), rng.integers(-4, 4, count)]


@pytest.mark.jit
@pytest.mark.parametrize(
    "kind", marked([ElementKind.FLOAT32, ElementKind.FLOAT64], only=[ElementKind.FLOAT32])
)
@pytest.mark.parametrize(
    ("ratio", "mode", "half_pixel"),
    [(0, "avg", True), pytest.param(2, "max", False, marks=pytest.mark.slow)],
)
def test_boxes_of_open_images_are_sampled(
    kind: ElementKind, ratio: int, mode: str, half_pixel: bool
) -> None:
    types = [
        TensorType(kind, (N, H, W, 5)),
        TensorType(kind, (BOX_COUNT, 4)),
        TensorType(ElementKind.INT64, (BOX_COUNT,)),
    ]
    attributes = {"ratio": ratio, "mode": mode, "half_pixel": half_pixel, "scale": 0.5}
    align = instruction_of(RoiAlignInst, types, height=2, width=3, **attributes)
    check_open(align, SETS, Target.host(8), operands_of=_operands, ulp=16, absolute=1e-5)
