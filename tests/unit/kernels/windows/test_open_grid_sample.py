"""GridSample of open images at open numbers of places."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from glow_nb.base.types import Array, ElementKind, TensorType
from glow_nb.hlir.ops.families import fitted
from glow_nb.kernels.target import Target
from glow_nb.llir.instructions.grid_sample import GridSampleInst
from tests.unit.kernels.cases import instruction_of, random_array
from tests.unit.kernels.open_cases import check_open, open_size

FLOAT32, FLOAT64, FLOAT16 = ElementKind.FLOAT32, ElementKind.FLOAT64, ElementKind.FLOAT16
N, H, W, K = (open_size(name, hint) for name, hint in (("n", 2), ("h", 9), ("w", 7), ("k", 40)))
SETS = [
    {"n": n, "h": h, "w": w, "k": k}
    for n, h, w, k in ((1, 1, 1, 1), (2, 9, 7, 40), (3, 5, 1, 7), (1, 2, 30, 131), (2, 12, 8, 64))
]
SHAPES: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((N, H, W, 5), (H, K)),
    ((N, W, 3, H, 8), (2, K)),
    ((N, W, 19), (K,)),
]


def _places(instruction: Any) -> list[Array]:
    rng = np.random.default_rng(3)
    x = random_array(rng, instruction.input.type, specials=False)
    type = instruction.grid.type
    places = rng.uniform(-1.6, 1.6, type.shape)
    special = places.reshape(-1)[::7]
    special[:] = rng.choice([1e30, -1e30, np.nan, np.inf, 0.5, -1.0, 1.0], special.size)
    if instruction.coordinates == "elements":
        places *= 6
    return [x, fitted(places, type)]


def _cases() -> list[object]:
    modes = itertools.product(
        ("nearest", "linear", "cubic"),
        ("zeros", "border", "reflection"),
        ("centers", "edges", "elements"),
    )
    found: list[object] = []
    for turn, chosen in enumerate(modes):
        mode = chosen[0]
        shapes = SHAPES if mode != "cubic" else SHAPES[::2]
        shape, out = shapes[turn % len(shapes)]
        kind = (FLOAT32, FLOAT32, FLOAT64, FLOAT16)[turn // 4 % 4]
        settings = (*chosen, shape, out, kind, (8, 4, 16)[turn % 3])
        is_default = mode == "linear" and turn % 4 == 0
        marks = () if is_default else pytest.mark.slow
        found.append(pytest.param(*settings, marks=marks))
    return found


@pytest.mark.jit
@pytest.mark.parametrize(
    ("mode", "padding", "coordinates", "shape", "out", "kind", "lanes"), _cases(), ids=str
)
def test_open_images_are_sampled_at_open_numbers_of_places(
    mode: str,
    padding: str,
    coordinates: str,
    shape: tuple[int, ...],
    out: tuple[int, ...],
    kind: ElementKind,
    lanes: int,
) -> None:
    grid = (shape[0], *out, len(shape) - 2)
    attributes = {"mode": mode, "padding": padding, "coordinates": coordinates}
    sample = instruction_of(
        GridSampleInst, [TensorType(kind, shape), TensorType(kind, grid)], **attributes
    )
    check_open(sample, SETS, Target.host(lanes), operands_of=_places, ulp=64, absolute=1e-4)
