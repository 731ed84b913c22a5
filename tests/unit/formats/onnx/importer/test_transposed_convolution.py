"""Transposed convolutions of every shape against ONNX Runtime."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

import glow_nb
from glow_nb.base.errors import ModelError
from glow_nb.base.types import Array
from glow_nb.formats.onnx.importer import import_onnx
from glow_nb.hlir.lower import lower
from glow_nb.hlir.ops import Concat, Convolution


def model_of(x: Array, filter: Array, bias: Array, **attributes: object) -> onnx.ModelProto:
    node = helper.make_node("ConvTranspose", ["x", "w", "b"], ["y"], **attributes)  # type: ignore[arg-type]
    graph = helper.make_graph(
        [node],
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(filter, "w"), numpy_helper.from_array(bias, "b")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def floats(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


@st.composite
def dimensions(draw: st.DrawFn) -> tuple[int, ...]:
    """Size, kernel, stride, dilation, pads and output padding of one dimension."""
    size, kernel = draw(st.integers(1, 6)), draw(st.integers(1, 5))
    stride, dilation = draw(st.integers(1, 3)), draw(st.sampled_from([1, 1, 2]))
    begin, end = draw(st.integers(0, 2)), draw(st.integers(0, 2))
    extra = draw(st.integers(0, stride - 1))
    results = stride * (size - 1) + extra + dilation * (kernel - 1) + 1 - begin - end
    assume(results > 0)
    return size, kernel, stride, dilation, begin, end, extra


@given(st.lists(dimensions(), min_size=1, max_size=3), st.integers(1, 3), st.integers(1, 3))
@settings(max_examples=settings().max_examples // 4)
def test_every_shape_gives_what_onnxruntime_gives(
    chosen: list[tuple[int, ...]], group: int, depth: int
) -> None:
    sizes, kernel, strides, dilations, begins, ends, extra = zip(*chosen, strict=True)
    x, filter = floats(2, 2 * group, *sizes), floats(2 * group, depth, *kernel)
    model = model_of(
        x,
        filter,
        floats(depth * group),
        strides=strides,
        dilations=dilations,
        pads=(*begins, *ends),
        output_padding=extra,
        group=group,
    )
    (expected,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    (found,) = glow_nb.compile(model, backend="interpreter").run({"x": x}).values()
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("kernel", "count"), [(2, 1), (4, 4), (3, 4)])
def test_each_place_between_two_strides_is_a_convolution(kernel: int, count: int) -> None:
    pads = (kernel // 2 - 1 + kernel % 2,) * 4
    filter = floats(8, 5, kernel, kernel)
    model = model_of(floats(1, 8, 6, 7), filter, floats(5), strides=(2, 2), pads=pads)
    nodes = list(lower(import_onnx(model)))
    assert sum(isinstance(node, Convolution) for node in nodes) == count
    convolutions = [node for node in nodes if isinstance(node, Convolution)]
    taps = sum(np.prod(node.kernel) * node.filter.type.shape[0] for node in convolutions)
    assert taps == kernel**2 * 5
    joined = [node for node in nodes if isinstance(node, Concat) and node.axis == 3]
    assert bool(joined) == (count > 1)


def test_output_padding_may_be_as_large_as_the_stride() -> None:
    """ONNX Runtime wants it smaller; only a shape that is asked for may leave over more."""
    x, filter = floats(1, 2, 3), np.ones((2, 1, 2), np.float32)
    model = model_of(x, filter, np.full(1, 5, np.float32), strides=(2,), output_shape=(9,))
    (found,) = glow_nb.compile(model, backend="interpreter").run({"x": x}).values()
    expected = np.append(np.repeat(x.sum(axis=1), 2, axis=1), [[0, 0, 0]], axis=1) + 5
    np.testing.assert_allclose(found, expected[:, None], rtol=1e-5)


@pytest.mark.parametrize(
    ("bias", "pads", "words"),
    [
        (1, (0, 0, 0, 0), ["bias", "float32<1>", "[5]"]),
        (5, (3, 0, 4, 0), ["[3, 0, 4, 0]", "[6, 7]"]),
    ],
)
def test_what_does_not_fit_is_named(bias: int, pads: tuple[int, ...], words: list[str]) -> None:
    model = model_of(floats(1, 8, 5, 6), floats(8, 5, 2, 2), floats(bias), pads=pads)
    with pytest.raises(ModelError) as caught:
        import_onnx(model)
    assert all(word in str(caught.value) for word in words)
