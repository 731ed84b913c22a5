"""RoiAlign against its operator: boxes inside, outside, turned around, huge, and no numbers."""

import numpy as np
import pytest

from glow_nb.base.types import Array, ElementKind, TensorType
from glow_nb.kernels.target import Target
from glow_nb.llir.instructions.regions import RoiAlignInst
from tests.in_turn import in_turn
from tests.unit.kernels.cases import check, instruction_of, random_array

BOXES = np.array(
    [
        [2, 3, 12, 8.5],
        [-6, -4, 8, 18],
        [0, 0, 0, 0],
        [4, 6, 5, 6.5],
        [10, 8, 2, 4],
        [20, 20, 80, 100],
        [-1e9, -1e9, 1e9, 1e9],
        [1e30, 2, 1e31, 5],
        [-np.inf, 2, np.inf, 5],
        [np.nan, 2, 4, 5],
        [1, 2, 4, np.nan],
    ]
)


def _check(boxes: Array, channels: int, kind: ElementKind, **attributes: object) -> None:
    rng = np.random.default_rng(channels)
    x = random_array(rng, TensorType(kind, (2, 7, 9, channels)), specials=False)
    batch = rng.integers(-4, 4, len(boxes))
    operands = [x, boxes.astype(kind.dtype), batch]
    instruction = instruction_of(
        RoiAlignInst, [TensorType.of(array) for array in operands], **attributes
    )
    check(instruction, Target.host(), operands=operands, ulp=16, absolute=1e-5)


@pytest.mark.jit
@pytest.mark.parametrize(("ratio", "mode"), in_turn([0, 2], ["avg", "max"]))
@pytest.mark.parametrize("half_pixel", [False, True])
def test_boxes_of_all_kinds_are_sampled(mode: str, ratio: int, half_pixel: bool) -> None:
    """The default run has the mean with samples by size, and the largest with samples by number."""
    _check(
        BOXES,
        5,
        ElementKind.FLOAT32,
        height=2,
        width=3,
        ratio=ratio,
        scale=0.5,
        half_pixel=half_pixel,
        mode=mode,
    )


@pytest.mark.jit
@pytest.mark.parametrize(
    ("channels", "kind"),
    in_turn([1, 37, 64], [kind for kind in ElementKind if kind.is_float]),
)
def test_every_kind_of_floats_is_sampled(channels: int, kind: ElementKind) -> None:
    """The default run has another kind for each number of channels."""
    _check(BOXES[:5], channels, kind, height=1, width=2)


@pytest.mark.jit
def test_no_boxes_give_no_regions() -> None:
    _check(BOXES[:0], 3, ElementKind.FLOAT32, height=2, width=2)
