"""Operators that read at computed places mean what onnxruntime takes them for."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto
from onnx.reference import ReferenceEvaluator

import glow_nb
from glow_nb.base.errors import ModelError, UnsupportedError
from glow_nb.formats.onnx.importer import import_onnx
from glow_nb.hlir.evaluate import evaluate
from tests.unit.formats.onnx.importer.models import one, value, weight
from tests.unit.formats.onnx.importer.reference import check, numbers, typed

DEFORMED: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((1, 3, 7, 6), (4, 3, 3, 3), {"pads": [1, 1, 1, 1]}),
    ((2, 4, 7, 6), (6, 2, 3, 2), {"group": 2, "offset_group": 2, "strides": [2, 1]}),
    ((1, 4, 9, 8), (2, 4, 2, 3), {"offset_group": 4, "dilations": [2, 1], "pads": [1, 0, 2, 1]}),
    ((2, 6, 5, 5), (6, 1, 3, 3), {"group": 6, "offset_group": 3}),
]


def test_open_images_are_deformed() -> None:
    sizes: dict[str, tuple[Any, ...]] = {"x": ("n", 2, "m", 4), "o": ("n", 18, "m", 4)}
    inputs = [value(name, shape) for name, shape in sizes.items()]
    inputs.append(value("w", (2, 2, 3, 3)))
    proto = one("DeformConv", ("x", "w", "o"), opset=19, inputs=inputs, pads=[1, 1, 1, 1])
    function = glow_nb.load(proto, open_sizes=True)
    for n, m in ((1, 3), (2, 5)):
        arrays = [numbers(n, 2, m, 4), numbers(n, 18, m, 4), numbers(2, 2, 3, 3)]
        feeds = dict(zip("xow", arrays, strict=True))
        wanted: Any = ReferenceEvaluator(proto).run(None, feeds)
        np.testing.assert_allclose(evaluate(function, feeds)["y"], wanted[0], rtol=1e-4, atol=1e-4)


def _deformed(shape: Any, filters: Any, options: dict[str, Any]) -> tuple[Any, tuple[int, ...]]:
    """Return shapes of offset and mask of a deformable convolution."""
    rank = len(shape) - 2
    pads, strides = options.get("pads", [0] * 4), options.get("strides", [1, 1])
    dilations = options.get("dilations", [1, 1])
    out = tuple(
        (shape[2 + i] + pads[i] + pads[rank + i] - dilations[i] * (filters[2 + i] - 1) - 1)
        // strides[i]
        + 1
        for i in range(rank)
    )
    taps = options.get("offset_group", 1) * filters[2] * filters[3]
    return (shape[0], taps * rank, *out), (shape[0], taps, *out)


@pytest.mark.parametrize("has_mask", [False, True])
@pytest.mark.parametrize(("shape", "filters", "options"), DEFORMED, ids=str)
def test_deformable_convolution(
    shape: Any, filters: Any, options: dict[str, Any], has_mask: bool
) -> None:
    offset, mask = _deformed(shape, filters, options)
    shapes = {"x": shape, "w": filters, "o": offset, "b": filters[:1], "m": mask}
    names = list(shapes) if has_mask else ["x", "w", "o"]
    inputs = [value(name, shapes[name]) for name in names]
    proto = typed(one("DeformConv", names, opset=19, inputs=inputs, **options))
    feeds = [numbers(*shapes[name]) * (2 if name == "o" else 1) for name in names]
    check(proto, *feeds, tolerance=1e-4)


def test_offsets_that_do_not_fit_are_refused() -> None:
    inputs = [value("x", (1, 3, 7, 6)), value("w", (4, 3, 3, 3)), value("o", (1, 18, 5, 5))]
    with pytest.raises(ModelError, match=r"offset %o .* must be \[1, 18, 5, 4\]"):
        import_onnx(one("DeformConv", ("x", "w", "o"), opset=19, inputs=inputs))


ROIS = [
    [1.0, 1.5, 6.0, 4.25],
    [-3.0, -2.0, 4.0, 9.0],
    [0.0, 0.0, 0.0, 0.0],
    [2.0, 3.0, 2.5, 3.25],
    [5.0, 4.0, 1.0, 2.0],
    [10.0, 10.0, 40.0, 50.0],
]


@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("ratio", [0, 2])
@pytest.mark.parametrize("transformation", ["half_pixel", "output_half_pixel"])
def test_regions_are_aligned(mode: str, ratio: int, transformation: str) -> None:
    inputs = [
        value("x", (2, 3, 8, 9)),
        value("r", (len(ROIS), 4)),
        value("b", (len(ROIS),), TensorProto.INT64),
    ]
    options: dict[str, Any] = {"output_height": 2, "output_width": 3, "spatial_scale": 0.5}
    options |= {"mode": mode, "sampling_ratio": ratio}
    options["coordinate_transformation_mode"] = transformation
    proto = typed(one("RoiAlign", ("x", "r", "b"), opset=16, inputs=inputs, **options))
    batch = np.arange(len(ROIS)) % 2
    check(proto, numbers(2, 3, 8, 9), np.array(ROIS, np.float32) * 2, batch, tolerance=1e-4)


def test_regions_of_too_many_samples_are_refused() -> None:
    inputs = [value("x", (1, 2, 6, 6)), value("r", (2, 4)), value("b", (2,), TensorProto.INT64)]
    proto = one("RoiAlign", ("x", "r", "b"), opset=16, inputs=inputs, sampling_ratio=10**9)
    with pytest.raises(UnsupportedError, match="sampling_ratio 1000000000; at most 256"):
        import_onnx(proto)


def test_regions_of_the_oldest_form_are_aligned() -> None:
    inputs = [value("x", (1, 2, 6, 6)), value("r", (2, 4)), value("b", (2,), TensorProto.INT64)]
    proto = typed(one("RoiAlign", ("x", "r", "b"), opset=10, inputs=inputs))
    check(proto, numbers(1, 2, 6, 6), np.array(ROIS[:2], np.float32), np.zeros(2, np.int64))


@pytest.mark.parametrize("shape", [(0, 2, 3, 3), (2, 0, 3, 3)])
def test_a_grid_over_no_images_samples_nothing(shape: tuple[int, ...]) -> None:
    inputs = [value("x", shape), value("grid", (shape[0], 4, 5, 2))]
    (output,) = import_onnx(one("GridSample", ["x", "grid"], inputs=inputs, opset=20)).outputs
    assert output.type.shape == (*shape[:2], 4, 5)


def test_an_empty_image_cannot_be_sampled() -> None:
    inputs = [value("x", (1, 2, 0, 3)), value("grid", (1, 4, 5, 2))]
    with pytest.raises(ModelError, match="is empty: the places of grid"):
        import_onnx(one("GridSample", ["x", "grid"], inputs=inputs, opset=20))


@pytest.mark.parametrize("align_corners", [0, 1])
@pytest.mark.parametrize("size", [(1, 3, 2, 4), (2, 1, 5, 3), (1, 2, 3, 2, 4), (3, 1, 2, 2, 2)])
def test_grids_are_mapped_for_one_image_and_for_several(
    size: tuple[int, ...], align_corners: int
) -> None:
    rank = len(size) - 2
    inputs = [value("theta", (size[0], rank, rank + 1))]
    constants = [weight("size", np.array(size))]
    options = {"opset": 20, "align_corners": align_corners}
    proto = one("AffineGrid", ("theta", "size"), inputs=inputs, weights=constants, **options)
    check(typed(proto), numbers(size[0], rank, rank + 1))


def test_a_single_place_of_a_grid_lies_in_its_middle() -> None:
    inputs, constants = [value("theta", (1, 2, 3))], [weight("size", np.array([1, 1, 1, 2]))]
    options = {"opset": 20, "align_corners": 1}
    proto = one("AffineGrid", ("theta", "size"), inputs=inputs, weights=constants, **options)
    theta = np.array([[[1, 2, 3], [4, 5, 6]]], np.float32)
    (found,) = evaluate(import_onnx(proto), {"theta": theta}).values()
    np.testing.assert_array_equal(found, [[[[2, 2], [4, 10]]]])


@pytest.mark.parametrize("size", [[1, 1, 2, 2], [1], []])
def test_a_matrix_that_does_not_fit_its_grid_is_refused(size: list[int]) -> None:
    inputs, constants = [value("theta", (1, 3, 4))], [weight("size", np.array(size, np.int64))]
    proto = one("AffineGrid", ["theta", "size"], inputs=inputs, weights=constants, opset=20)
    with pytest.raises(ModelError, match=rf"theta .*<1 x 3 x 4> must be .*{re.escape(str(size))}"):
        import_onnx(proto)


def test_no_indices_gather_nothing_from_an_empty_axis() -> None:
    inputs = [value("x", (2, 0, 0)), value("places", (1, 6, 0), TensorProto.INT64)]
    (output,) = import_onnx(one("GatherElements", ["x", "places"], inputs=inputs, axis=1)).outputs
    assert output.type.shape == (1, 6, 0)


def test_no_indices_write_nothing() -> None:
    inputs = [value("x", (3, 0, 2)), value("places", (1, 4, 0), TensorProto.INT64)]
    inputs.append(value("new", (1, 4, 0)))
    model = one("ScatterElements", ["x", "places", "new"], inputs=inputs, axis=1)
    (output,) = import_onnx(model).outputs
    assert output.type.shape == (3, 0, 2)
