"""The demonstration's network and picture."""

from __future__ import annotations

import sys

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from glow_nb.base.types import Array
from glow_nb.demo.network import LOGITS, PROBABILITIES, STAGES, make_resnet50
from glow_nb.demo.photograph import load_image, normalize
from glow_nb.formats.onnx.importer import import_onnx
from glow_nb.hlir.cost import total_cost
from glow_nb.hlir.evaluate import evaluate


@pytest.fixture(scope="module")
def image() -> Array:
    return np.random.default_rng(3).standard_normal((1, 3, 64, 64), np.float32)


@pytest.fixture(scope="module")
def model(image: Array) -> onnx.ModelProto:
    return make_resnet50(image)


def test_structure_is_that_of_resnet50(model: onnx.ModelProto) -> None:
    onnx.checker.check_model(model)
    operators = [node.op_type for node in model.graph.node]
    assert operators.count("Conv") == operators.count("BatchNormalization") == 53
    assert operators.count("Relu") == 49
    assert operators.count("Add") == 16
    learned = sum(
        numpy_helper.to_array(tensor).size
        for tensor in model.graph.initializer
        if not tensor.name.endswith((".mean", ".variance"))
    )
    assert learned == 25_557_032  # as published for trained ones


def test_activations_keep_their_scale(model: onnx.ModelProto, image: Array) -> None:
    outputs = evaluate(import_onnx(model), {"image": image})
    assert list(outputs) == [PROBABILITIES, LOGITS]
    assert abs(outputs[LOGITS].std() - 1) < 1e-3
    assert abs(outputs[PROBABILITIES].sum() - 1) < 1e-5
    assert outputs[PROBABILITIES].max() < 0.2  # not saturated


def test_arithmetic_is_that_of_resnet50(model: onnx.ModelProto) -> None:
    function = import_onnx(model)
    scale = 64 * 64 / (224 * 224)
    assert total_cost(function).multiply_adds == pytest.approx(4.09e9 * scale, rel=0.05)


def test_same_seed_gives_the_same_weights(image: Array) -> None:
    first, second = (make_resnet50(image, stages=STAGES[:1]) for _ in range(2))
    assert first.SerializeToString() == second.SerializeToString()


def test_photograph_is_normalized() -> None:
    pytest.importorskip("matplotlib")
    image, words = load_image()
    assert image.shape == (1, 3, 224, 224)
    assert image.dtype == np.float32
    assert image.flags.c_contiguous
    assert "Grace Hopper" in words
    assert image.std() > 0.5
    assert np.abs(image).max() < 3


def test_normalize() -> None:
    pixels = np.zeros((2, 2, 3), np.uint8)
    pixels[0, 1] = 255
    image = normalize(pixels)
    np.testing.assert_allclose(image[0, :, 0, 0], [-0.485 / 0.229, -0.456 / 0.224, -0.406 / 0.225])
    np.testing.assert_allclose(image[0, 0, 0, 1], (1 - 0.485) / 0.229)


def test_noise_where_nothing_can_read_a_photograph(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.cbook", None)
    image, words = load_image()
    assert image.shape == (1, 3, 224, 224)
    assert "matplotlib" in words
    assert "not installed" in words
