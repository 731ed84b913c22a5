"""GridSample against its operator: every mode, padding and kind, places inside and far outside."""

import itertools

import numpy as np
import pytest

from glow_nb.base.types import ElementKind, TensorType
from glow_nb.hlir.ops.families import fitted
from glow_nb.kernels.target import Target
from glow_nb.llir.instructions.grid_sample import GridSampleInst
from tests.unit.kernels.cases import check, instruction_of, random_array

FLOATS = [ElementKind.FLOAT32, ElementKind.FLOAT64, ElementKind.FLOAT16, ElementKind.BFLOAT16]
SHAPES: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((2, 7, 9, 37), (5, 15)),
    ((1, 6, 5, 3), (1, 3)),
    ((1, 3, 4, 5, 8), (2, 3, 11)),
    ((2, 11, 64), (70,)),
    ((1, 1, 4, 1), (9, 9)),
]


def cases() -> list[object]:
    """Return all modes, paddings and coordinates; kinds, shapes and widths take turns."""
    modes = itertools.product(("nearest", "linear", "cubic"), ("zeros", "border", "reflection"))
    found: list[object] = []
    for turn, ((mode, padding), coordinates) in enumerate(
        itertools.product(modes, ("centers", "edges", "elements"))
    ):
        settings = (FLOATS[turn // 4 % 4], *SHAPES[turn % 5], (8, 4, 16)[turn % 3])
        marks = () if turn % 4 == 0 else pytest.mark.slow
        found.append(pytest.param(mode, padding, coordinates, *settings, marks=marks))
    return found


@pytest.mark.jit
@pytest.mark.parametrize(
    ("mode", "padding", "coordinates", "kind", "shape", "out", "lanes"), cases(), ids=str
)
def test_places_of_all_kinds_are_sampled(
    mode: str,
    padding: str,
    coordinates: str,
    kind: ElementKind,
    shape: tuple[int, ...],
    out: tuple[int, ...],
    lanes: int,
) -> None:
    rng = np.random.default_rng(len(shape))
    x = random_array(rng, TensorType(kind, shape), specials=False)
    places = rng.uniform(-1.6, 1.6, (shape[0], *out, len(shape) - 2))
    special = places.reshape(-1)[::7]
    special[:] = rng.choice([1e30, -1e30, np.nan, np.inf, 0.5, -1.0, 1.0], special.size)
    if coordinates == "elements":
        places *= 6
    grid = fitted(places, TensorType(kind, places.shape))
    attributes = {"mode": mode, "padding": padding, "coordinates": coordinates}
    instruction = instruction_of(
        GridSampleInst, [TensorType.of(x), TensorType.of(grid)], **attributes
    )
    check(instruction, Target.host(lanes), operands=[x, grid], ulp=32, absolute=1e-4)


@pytest.mark.jit
def test_what_lies_outside_is_zero_beside_infinities() -> None:
    x = np.full((1, 2, 2, 3), np.inf, np.float32)
    x[0, 0, 0] = [1, 2, 3]
    grid = np.array([[[0, -4], [-0.5, -0.5], [9, 9]]], np.float32)[None]
    attributes = {"mode": "linear", "padding": "zeros", "coordinates": "elements"}
    instruction = instruction_of(
        GridSampleInst, [TensorType.of(x), TensorType.of(grid)], **attributes
    )
    expected = instruction.as_node().evaluate(x, grid)  # type: ignore[attr-defined]
    np.testing.assert_array_equal(expected[0, 0], [[0, 0, 0], [0.25, 0.5, 0.75], [0, 0, 0]])
    check(instruction, Target.host(), operands=[x, grid])


@pytest.mark.jit
@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_places_far_outside_are_reflected_exactly(mode: str) -> None:
    x = np.arange(4, dtype=np.float32).reshape(1, 4, 1)
    far = [5, -2, 100_000_000, -(2**30), 2.0**100]
    grid = np.array(far, np.float32).reshape(1, -1, 1)
    attributes = {"mode": mode, "padding": "reflection", "coordinates": "elements"}
    instruction = instruction_of(
        GridSampleInst, [TensorType.of(x), TensorType.of(grid)], **attributes
    )
    expected = instruction.as_node().evaluate(x, grid)  # type: ignore[attr-defined]
    turns = [abs(int(place)) % 6 for place in far]
    np.testing.assert_array_equal(expected.reshape(-1), [min(t, 6 - t) for t in turns])
    check(instruction, Target.host(), operands=[x, grid])


@pytest.mark.jit
def test_no_places_give_no_samples() -> None:
    types = [TensorType(FLOATS[0], shape) for shape in ((1, 4, 4, 2), (1, 0, 3, 2))]
    check(instruction_of(GridSampleInst, types), Target.host())
