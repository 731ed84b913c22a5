"""GridSample in every mode, padding and rank, inside the input, on its border and beyond."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx.reference import ReferenceEvaluator

from glow_nb.base.errors import UnsupportedError
from glow_nb.formats.onnx.importer import import_onnx
from glow_nb.hlir.evaluate import evaluate
from tests.in_turn import in_turn, left_out
from tests.unit.formats.onnx.importer.models import one, value

MODES, PADDINGS = ("nearest", "linear", "cubic"), ("zeros", "border", "reflection")
# Multiples of 1/16 and odd numbers beside them: halves between elements are met, and avoided.
COORDINATES = st.integers(-40, 40).map(lambda n: n / 16) | st.floats(-2.5, 2.5, width=32)


def grid_sample(x: Any, grid: Any, **attributes: Any) -> onnx.ModelProto:
    proto: onnx.ModelProto = one(
        "GridSample",
        ("x", "grid"),
        opset=20,
        inputs=[value("x", x.shape), value("grid", grid.shape)],
        **attributes,
    )
    proto.graph.output[0].CopyFrom(value("y", None))
    return proto


def ours(proto: onnx.ModelProto, x: Any, grid: Any) -> Any:
    return evaluate(import_onnx(proto), {"x": x, "grid": grid})["y"]


def onnx_runtime(proto: onnx.ModelProto, x: Any, grid: Any) -> Any:
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    return session.run(None, {"x": x, "grid": grid})[0]


def reference(proto: onnx.ModelProto, x: Any, grid: Any) -> Any:
    results: Any = ReferenceEvaluator(proto).run(None, {"x": x, "grid": grid})
    return results[0]


def on_a_wide_margin(x: Any, grid: Any, **attributes: Any) -> Any:
    """Return what ``padding_mode="border"`` means by the reference: a margin of border elements."""
    margin, sizes = 12, np.array(x.shape[:1:-1])
    spans = sizes - 1 if attributes["align_corners"] else sizes
    wide = spans + 2 * margin
    padded = np.pad(x, ((0, 0), (0, 0), *((margin, margin),) * (x.ndim - 2)), mode="edge")
    moved = (grid * (spans / wide)).astype(np.float32)
    attributes["padding_mode"] = "zeros"
    return reference(grid_sample(padded, moved, **attributes), padded, moved)


@pytest.mark.parametrize(("padding_mode", "align_corners"), in_turn(PADDINGS, [0, 1]))
@pytest.mark.parametrize("mode", MODES)
@settings(max_examples=10)
@given(st.data())
def test_images(mode: str, padding_mode: str, align_corners: int, data: st.DataObject) -> None:
    """In the default run, the corners of every second padding are aligned."""
    sizes = data.draw(st.tuples(st.integers(2, 5), st.integers(2, 5)))
    x = np.random.default_rng(0).normal(size=(1, 2, *sizes)).astype(np.float32)
    points = data.draw(st.lists(st.tuples(COORDINATES, COORDINATES), min_size=24, max_size=24))
    grid = np.array(points, np.float32).reshape(1, 4, 6, 2)
    proto = grid_sample(x, grid, mode=mode, padding_mode=padding_mode, align_corners=align_corners)
    expected = onnx_runtime(proto, x, grid)
    np.testing.assert_allclose(ours(proto, x, grid), expected, rtol=1e-4, atol=1e-4)


def volumes() -> list[object]:
    """Return each mode with all paddings and corners: in the default run, with one padding."""
    cases: list[object] = []
    for number, mode in enumerate(MODES):
        slow = left_out(3, PADDINGS, first=(number + 2) % 3)
        for case in in_turn(PADDINGS, [1, 0]):
            marks = pytest.mark.slow if case.values[0] in slow else case.marks
            cases.append(pytest.param(mode, *case.values, marks=marks))
    return cases


@pytest.mark.parametrize(("mode", "padding_mode", "align_corners"), volumes())
@settings(max_examples=4)
@given(st.data())
def test_volumes(mode: str, padding_mode: str, align_corners: int, data: st.DataObject) -> None:
    """In the default run, each mode has one padding; corners are aligned where images have not."""
    sizes = data.draw(st.tuples(*[st.integers(2, 4)] * 3))
    x = np.random.default_rng(0).normal(size=(1, 1, *sizes)).astype(np.float32)
    points = data.draw(st.lists(st.tuples(*[COORDINATES] * 3), min_size=6, max_size=6))
    grid = np.array(points, np.float32).reshape(1, 1, 2, 3, 3)
    attributes = {"mode": mode, "padding_mode": padding_mode, "align_corners": align_corners}
    proto = grid_sample(x, grid, **attributes)
    if (mode, padding_mode) == ("cubic", "border"):
        expected = on_a_wide_margin(x, grid, **attributes)
    else:
        expected = reference(proto, x, grid)
    np.testing.assert_allclose(ours(proto, x, grid), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("align_corners", "expected"), [(0, [-1.7869257, 50.40399]), (1, [1.1409005, 48.25957])]
)
def test_cubic_takes_its_neighbours_before_it_minds_the_border(
    align_corners: int, expected: list[float]
) -> None:
    """The numbers are those of PyTorch 2.13 and ONNX Runtime."""
    x = (np.arange(12, dtype=np.float32) ** 2).reshape(1, 1, 3, 4)
    grid = np.array([[[[-0.9, -0.9], [0.95, 0.0]]]], np.float32)
    proto = grid_sample(x, grid, mode="cubic", padding_mode="border", align_corners=align_corners)
    np.testing.assert_allclose(ours(proto, x, grid).ravel(), expected, rtol=1e-4)


def test_too_many_neighbours_are_refused() -> None:
    x, grid = np.zeros((1, 1, *(2,) * 9), np.float32), np.zeros((1, *(1,) * 9, 9), np.float32)
    with pytest.raises(UnsupportedError, match="512 elements for each of the result"):
        import_onnx(grid_sample(x, grid, mode="linear"))
