"""Operators that put elements at places, and forms of training, mean what their definitions say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto
from onnx.reference import ReferenceEvaluator

import glow_nb
from glow_nb.base.errors import ModelError
from glow_nb.formats.onnx.importer import import_onnx
from glow_nb.hlir.evaluate import evaluate
from tests.unit.formats.onnx.importer.models import one, value, weight
from tests.unit.formats.onnx.importer.reference import numbers

INT = TensorProto.INT64


def check_reference(proto: Any, feeds: dict[str, Any]) -> None:
    expected: Any = ReferenceEvaluator(proto).run(None, feeds)
    for found, wanted in zip(evaluate(import_onnx(proto), feeds).values(), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


FOLDS: list[tuple[list[int], list[int], int, dict[str, Any]]] = [
    ([7], [3], 5, {}),
    ([6, 6], [2, 3], 6, {"strides": [2, 3]}),  # side by side: no sum
    ([5, 6], [2, 3], 24, {"pads": [0, 1, 1, 1], "dilations": [2, 1], "strides": [1, 1]}),
    ([4, 5], [2, 2], 4, {"strides": [2, 2]}),  # a column that no block covers
    ([3, 4, 5], [2, 2, 2], 24, {}),
]


@pytest.mark.parametrize(("image", "block", "steps", "options"), FOLDS, ids=str)
def test_blocks_are_added_up(
    image: list[int], block: list[int], steps: int, options: dict[str, Any]
) -> None:
    shape = (2, 3 * int(np.prod(block)), steps)
    weights = [weight("i", np.array(image)), weight("b", np.array(block))]
    names = ("x", "i", "b")
    proto = one("Col2Im", names, opset=18, inputs=[value("x", shape)], weights=weights, **options)
    check_reference(proto, {"x": numbers(*shape)})


def test_blocks_that_do_not_fit_are_refused() -> None:
    weights = [weight("i", np.array([5, 5])), weight("b", np.array([2, 2]))]
    proto = one(
        "Col2Im", ("x", "i", "b"), opset=18, inputs=[value("x", (1, 12, 15))], weights=weights
    )
    with pytest.raises(ModelError, match=r"must be \[N, C \* 4, 16\]"):
        import_onnx(proto)


@pytest.mark.parametrize("mode", ["linear", "circular"])
@pytest.mark.parametrize(("shape", "axis"), [((2, 3, 5, 4), -2), ((3, 6), 1), ((2, 4, 3), 1)])
def test_caches_are_written(shape: tuple[int, ...], axis: int, mode: str) -> None:
    news = list(shape)
    news[axis] = 2
    inputs = [value("x", shape), value("u", news), value("i", shape[:1], INT)]
    proto = one("TensorScatter", ("x", "u", "i"), opset=24, inputs=inputs, axis=axis, mode=mode)
    length = shape[axis]
    starts = np.array([0, length - 2, 1][: shape[0]]) + (2 if mode == "circular" else 0)
    check_reference(proto, {"x": numbers(*shape), "u": numbers(*news), "i": starts})


@pytest.mark.parametrize("mode", ["linear", "circular"])
def test_caches_of_any_length_are_written(mode: str) -> None:
    inputs = [value("x", ("n", 2, "m", 4)), value("u", ("n", 2, "s", 4)), value("i", ("n",), INT)]
    proto = one("TensorScatter", ("x", "u", "i"), opset=24, inputs=inputs, axis=2, mode=mode)
    function = glow_nb.load(proto, open_sizes=True)
    for batch, length, steps in ((2, 40, 7), (1, 1, 1), (3, 5, 2)):
        starts = np.arange(batch) % (length - steps + 1) + (4 if mode == "circular" else 0)
        shapes = (batch, 2, length, 4), (batch, 2, steps, 4)
        feeds: Any = {"x": numbers(*shapes[0]), "u": numbers(*shapes[1]), "i": starts}
        (wanted,) = ReferenceEvaluator(proto).run(None, feeds)
        np.testing.assert_array_equal(evaluate(function, feeds)["y"], wanted)


@pytest.mark.parametrize("news", [(3,), (3, 7), (2, 2)])
def test_updates_that_do_not_fit_a_cache_are_refused(news: tuple[int, ...]) -> None:
    inputs = [value("x", (3, 6)), value("u", news)]
    proto = one("TensorScatter", ("x", "u"), opset=24, inputs=inputs, axis=1)
    with pytest.raises(ModelError, match="does not fit cache"):
        import_onnx(proto)


def _normalized(x: Any, axes: tuple[int, ...], vectors: list[Any]) -> list[Any]:
    """Return result, running mean and variance, and those of the batch, as training gives them."""
    scale, bias, mean, variance = vectors
    shape = tuple(1 if axis in axes else n for axis, n in enumerate(x.shape))
    batch, spread = x.mean(axis=axes), x.var(axis=axes)
    centred = (x - batch.reshape(shape)) / np.sqrt(spread.reshape(shape) + 1e-5)
    result = centred * scale.reshape(shape) + bias.reshape(shape)
    return [result, mean * 0.9 + batch * 0.1, variance * 0.9 + spread * 0.1, batch, spread]


@pytest.mark.parametrize("opset", [7, 9, 13])
@pytest.mark.parametrize("spatial", [0, 1])
def test_batch_normalization_trains(opset: int, spatial: int) -> None:
    if not spatial and opset > 7:
        pytest.skip("opset 9 has no such attribute")
    shape = (4, 3, 2, 5)
    vectors = [np.abs(numbers(*(shape[1:2] if spatial else shape[1:]))) + 0.5 for _ in range(4)]
    names = ("x", "s", "b", "m", "v")
    weights = [weight(name, array) for name, array in zip(names[1:], vectors, strict=True)]
    options = {} if spatial else {"spatial": 0}
    outputs = ("y", "rm", "rv", "sm", "sv")
    proto = one(
        "BatchNormalization",
        names,
        opset=opset,
        inputs=[value("x", shape)],
        weights=weights,
        outputs=outputs,
        **options,
    )
    x = numbers(*shape)
    expected = _normalized(x, (0, 2, 3) if spatial else (0,), vectors)
    found = evaluate(import_onnx(proto), {"x": x})
    for name, wanted in zip(outputs, expected, strict=True):
        np.testing.assert_allclose(found[name], wanted, rtol=1e-4, atol=1e-5, err_msg=name)


def test_batch_normalization_has_statistics_for_each_element() -> None:
    vectors = [np.abs(numbers(3, 2)) + 0.5 for _ in range(4)]
    names = ("x", "s", "b", "m", "v")
    weights = [weight(name, array) for name, array in zip(names[1:], vectors, strict=True)]
    inputs = [value("x", (4, 3, 2))]
    proto = one("BatchNormalization", names, opset=7, inputs=inputs, weights=weights, spatial=0)
    x = np.abs(numbers(4, 3, 2)) + 10  # far above the means: no result is near zero
    scale, bias, mean, variance = vectors
    wanted = (x - mean) / np.sqrt(variance + 1e-5) * scale + bias
    np.testing.assert_allclose(evaluate(import_onnx(proto), {"x": x})["y"], wanted, rtol=1e-4)


def test_mel_filters_that_cannot_be_are_refused() -> None:
    weights = [weight(name, np.array(n)) for name, n in zip("abc", (8, 16, 8000), strict=True)]
    weights += [weight("d", np.float32(0)), weight("e", np.float32(9000))]
    proto = one("MelWeightMatrix", tuple("abcde"), inputs=[value("x")], weights=weights)
    with pytest.raises(ModelError, match="at most half the rate"):
        import_onnx(proto)
