"""Resize by scales that are no whole numbers: as ONNX means it, and as PyTorch does."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from onnx.reference import ReferenceEvaluator

from glow_nb.base.errors import ModelError, UnsupportedError
from glow_nb.formats.onnx.importer import import_onnx
from glow_nb.hlir.evaluate import evaluate
from tests.unit.formats.onnx.importer.models import one, value, weight

COORDINATES = (
    "half_pixel",
    "half_pixel_symmetric",
    "pytorch_half_pixel",
    "align_corners",
    "asymmetric",
)
# Numbers without a pattern: whoever takes a wrong element or weight shows it.
LINE = (np.arange(10, dtype=np.float32) ** 1.5).reshape(1, 1, 10)


def resize(x: Any, scales: list[float], producer: str = "", **attributes: Any) -> onnx.ModelProto:
    """Return a model that *producer* wrote, which resizes *x* by *scales*."""
    proto: onnx.ModelProto = one(
        "Resize",
        ("x", "", "scales"),
        opset=19,
        inputs=[value("x", x.shape)],
        weights=[weight("scales", np.array(scales, np.float32))],
        **attributes,
    )
    proto.producer_name = producer
    proto.graph.output[0].CopyFrom(value("y", None))
    return proto


def ours(proto: onnx.ModelProto, x: Any) -> Any:
    return evaluate(import_onnx(proto), {"x": x})["y"]


def onnx_runtime(proto: onnx.ModelProto, x: Any) -> Any:
    return onnxruntime.InferenceSession(proto.SerializeToString()).run(None, {"x": x})[0]


@example(size=7, hundredths=46, coordinates="half_pixel_symmetric", mode="nearest")
@example(size=7, hundredths=46, coordinates="half_pixel_symmetric", mode="linear")
@given(
    size=st.integers(1, 12),
    hundredths=st.integers(20, 330),
    coordinates=st.sampled_from(COORDINATES),
    mode=st.sampled_from(["nearest", "linear", "cubic"]),
)
def test_others_mean_what_the_reference_does(
    size: int, hundredths: int, coordinates: str, mode: str
) -> None:
    scale = float(np.float32(hundredths / 100))
    x = np.random.default_rng(size).normal(size=(1, 1, size)).astype(np.float32)
    attributes = {"mode": mode, "coordinate_transformation_mode": coordinates}
    proto = resize(x, [1, 1, scale], **attributes)
    results: Any = ReferenceEvaluator(proto).run(None, {"x": x})
    got, expected = ours(proto, x), results[0]
    if coordinates == "pytorch_half_pixel" and mode == "cubic" and scale * size == 1:
        return  # the text of the operator says 0, the reference takes -0.5
    # Where the product is a whole number in float32 alone, the reference has one element less.
    shared = expected.shape[-1]
    assert got.shape[-1] - shared in (0, 1)
    if coordinates == "half_pixel_symmetric" and got.shape[-1] > shared:
        return  # its coordinates count from the middle of the result, whose length is another
    if not np.allclose(got[..., :shared], expected, 1e-4, 1e-5) and mode != "cubic":
        # Where a coordinate is whole but for rounding, the reference takes the element before it.
        expected = onnx_runtime(proto, x)
    np.testing.assert_allclose(got[..., :shared], expected[..., :shared], rtol=1e-4, atol=1e-5)


@given(size=st.integers(1, 40), hundredths=st.integers(20, 330))
@example(size=30, hundredths=130)
def test_size_is_that_of_shape_inference(size: int, hundredths: int) -> None:
    """But for products that are whole in float32 alone: there it is that of ONNX Runtime."""
    x = np.zeros((1, 1, size), np.float32)
    proto = resize(x, [1, 1, hundredths / 100])
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    inferred = onnx.shape_inference.infer_shapes(proto).graph.output[0].type.tensor_type.shape
    scale = np.float32(hundredths / 100)
    more = int(np.float32(size) * scale) - int(size * float(scale))
    assert ours(proto, x).shape == (1, 1, inferred.dim[2].dim_value + more)


@settings(max_examples=60)
@given(
    sizes=st.tuples(st.integers(2, 12), st.integers(2, 12)),
    twentieths=st.tuples(st.integers(10, 60), st.integers(10, 60)),
    form=st.sampled_from(
        [("linear", "align_corners"), ("linear", "half_pixel"), ("nearest", "asymmetric")]
    ),
)
def test_pytorch_means_what_onnxruntime_does(
    sizes: tuple[int, int], twentieths: tuple[int, int], form: tuple[str, str]
) -> None:
    x = np.random.default_rng(0).normal(size=(1, 1, *sizes)).astype(np.float32)
    mode, coordinates = form
    proto = resize(
        x,
        [1, 1, *(n / 20 for n in twentieths)],
        "pytorch",
        mode=mode,
        coordinate_transformation_mode=coordinates,
        nearest_mode="floor",
    )
    np.testing.assert_allclose(ours(proto, x), onnx_runtime(proto, x), rtol=1e-4, atol=1e-5)


# What ``F.interpolate(x, scale_factor=..., ...)`` of PyTorch 2.13 returns.
INTERPOLATED = [
    (
        {"mode": "linear", "coordinate_transformation_mode": "align_corners"},
        1.7,
        [0.0, 0.5625, 1.2285534, 2.2570436, 3.4203584],
    ),
    ({"mode": "nearest", "coordinate_transformation_mode": "asymmetric"}, 0.6, [0, 1, 3, 5, 6, 8]),
    (
        {"mode": "nearest", "coordinate_transformation_mode": "asymmetric"},
        0.7,
        [0, 1, 2, 4, 5, 7, 8],
    ),
]


@pytest.mark.parametrize(("attributes", "scale", "expected"), INTERPOLATED)
def test_pytorch_gets_its_own_numbers(
    attributes: dict[str, str], scale: float, expected: list[float]
) -> None:
    x = (
        LINE
        if attributes["mode"] == "linear"
        else np.arange(10, dtype=np.float32).reshape(1, 1, 10)
    )
    proto = resize(x, [1, 1, scale], "pytorch", nearest_mode="floor", **attributes)
    got = ours(proto, x).ravel()
    assert got.size == int(10 * scale)
    np.testing.assert_allclose(got[: len(expected)], expected, rtol=1e-5)


def test_who_wrote_it_decides() -> None:
    attributes = {"mode": "linear", "coordinate_transformation_mode": "align_corners"}
    corners = [
        ours(resize(LINE, [1, 1, 1.55], producer, **attributes), LINE)[0, 0, -1]
        for producer in ("pytorch", "")
    ]
    assert corners[0] == pytest.approx(27.0)  # the last element, as "align corners" says
    place = 14 * 9 / (15.5 - 1)
    assert corners[1] == pytest.approx(np.interp(place, np.arange(10), LINE.ravel()), rel=1e-5)


def test_absurd_scale_is_refused() -> None:
    with pytest.raises(ModelError, match="constants made at import"):
        import_onnx(resize(LINE, [1, 1, 3e38]))


def test_sizes_that_are_no_numbers_are_refused() -> None:
    sizes = weight("sizes", np.array([1, 1, np.nan], np.float32))
    proto = one("Resize", ("x", "", "", "sizes"), inputs=[value("x", (1, 1, 3))], weights=[sizes])
    with pytest.raises(ModelError, match="'sizes' .*nan.* must be finite"):
        import_onnx(proto)


@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_antialias_over_astronomically_many_elements_is_refused(mode: str) -> None:
    with pytest.raises(UnsupportedError, match="elements for each of the result"):
        import_onnx(resize(LINE, [1, 1, 1e-30], mode=mode, antialias=1))


def test_antialias_over_too_many_elements_is_refused() -> None:
    x = np.zeros((1, 1, 1 << 20), np.float32)
    with pytest.raises(UnsupportedError, match="2[0-9]{5} elements for each of the result"):
        import_onnx(resize(x, [1, 1, 1e-5], mode="linear", antialias=1))
