"""Normalizations in training: statistics of the batch, and the running ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

import glow_nb
from glow_nb.base.errors import GlowWarning, OptionError
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Function
from glow_nb.hlir.ops import BatchNormTraining
from glow_nb.train import SGD, MeanSquaredError
from tests.unit.train.networks import (
    in_training_mode,
    normalized_model,
)
from tests.unit.train.trainers import POINTS, make


def test_sizes_that_nothing_tells_may_come_with_the_first_batch(tmp_path: Path) -> None:
    model = normalized_model()
    for axis, name in enumerate("chw", 1):
        model.graph.input[0].type.tensor_type.shape.dim[axis].dim_param = name
    images, labels = TestNormalization.IMAGES, TestNormalization.LABELS
    trainer, other = make(function=model), make(function=model)
    with pytest.raises(OptionError, match="no batch has come yet; give inputs="):
        trainer.freeze()
    trainer.step(images, labels)
    trainer.save(tmp_path / "checkpoint")
    other.load(tmp_path / "checkpoint")
    assert other.step(images, labels) == trainer.step(images, labels)


class TestNormalization:
    """Statistics of the batch, and the running ones."""

    IMAGES = np.random.default_rng(2).normal(1, 2, (6, 2, 4, 4)).astype(np.float32)
    LABELS = np.arange(6) % 2

    def test_running_statistics_follow_the_batch(self) -> None:
        model = normalized_model()
        trainer = make(function=model, optimizer=SGD(0.0))
        trainer.step(self.IMAGES, self.LABELS)
        convolved = glow_nb.compile(_until(model, "convolved"), backend="interpreter")
        x = convolved.run(self.IMAGES)["convolved"].astype(np.float64)
        mean, variance = x.mean((0, 2, 3)), x.var((0, 2, 3), ddof=1)
        weights = trainer.weights
        np.testing.assert_allclose(weights["mean"], 0.25 * mean, rtol=1e-5)
        np.testing.assert_allclose(weights["variance"], 0.75 + 0.25 * variance, rtol=1e-5)

    def test_statistics_that_are_frozen_are_used(self) -> None:
        trainer = make(function=normalized_model(), frozen=("mean", "variance"))
        loss = trainer.step(self.IMAGES, self.LABELS)
        assert loss == pytest.approx(make(function=normalized_model()).evaluate(
            [(self.IMAGES, self.LABELS)]
        )["loss"], rel=1e-5)  # fmt: skip
        assert set(trainer.weights) == {"filter", "scale", "shift", "dense", "offset"}

    def test_open_sizes_are_those_of_the_batch(self) -> None:
        trainer = make(function=normalized_model())
        trainer.fit((self.IMAGES, self.LABELS, 4), 1, validation=(self.IMAGES, self.LABELS, 4))
        assert trainer.freeze(self.IMAGES[:3]).inputs[0].type.shape == (3, 2, 4, 4)
        assert trainer.inputs == ["x"]
        assert trainer.weights["filter"].shape == (3, 2, 3, 3)

    def test_a_graph_with_open_sizes_is_trained_as_its_model(self) -> None:
        model = normalized_model()
        trainer, other = make(function=glow_nb.load(model, open_sizes=True)), make(function=model)
        for one in (trainer, other):
            one.step(self.IMAGES, self.LABELS)
        for name, weight in other.weights.items():
            np.testing.assert_array_equal(trainer.weights[name], weight)

    @pytest.mark.parametrize(
        ("opset", "is_loaded"),
        [(9, False), (14, True), pytest.param(17, False, marks=pytest.mark.slow)],
    )
    def test_the_mode_of_a_model_is_that_of_its_trainer(self, opset: int, is_loaded: bool) -> None:
        """One that was exported in training mode is trained and used as one that was not."""
        plain, model = normalized_model(), in_training_mode(normalized_model(), opset)
        shapes = {"batch": len(self.IMAGES)}
        given = glow_nb.load(model, shapes=shapes) if is_loaded else model
        trainer, other = make(function=given), make(function=plain)
        for one in (trainer, other):
            one.step(self.IMAGES, self.LABELS)
        assert trainer.weights["mean"].any()
        assert trainer.weights.keys() == other.weights.keys()
        for name, weight in other.weights.items():
            np.testing.assert_array_equal(trainer.weights[name], weight)
        used, expected = (one.predict(self.IMAGES)["y"] for one in (trainer, other))
        np.testing.assert_array_equal(used, expected)
        frozen = glow_nb.compile(trainer.freeze(self.IMAGES), backend="interpreter")
        np.testing.assert_allclose(frozen.run(self.IMAGES)["y"], expected, rtol=1e-5, atol=1e-6)

    def test_without_a_trainer_the_model_decides_and_a_warning_says_so(self) -> None:
        model = in_training_mode(normalized_model(), 17)
        with pytest.warns(GlowWarning, match="the model says that it trains, so it normalizes by"):
            net = glow_nb.compile(model, backend="interpreter", shapes={"batch": 6})
        session = onnxruntime.InferenceSession(model.SerializeToString())
        (expected,) = session.run(None, {"x": self.IMAGES})
        np.testing.assert_allclose(net.run(self.IMAGES)["y"], expected, rtol=1e-4, atol=1e-5)

    def test_statistics_of_another_kind_than_the_input_follow_the_batch(self) -> None:
        def build(batch: int) -> Function:
            b = Builder("mixed")
            x = b.input("x", f"float16<{batch} x 4>")
            ones, zeros = np.ones(4, np.float16), np.zeros(4, np.float32)
            mean, variance = b.constant("mean", zeros), b.constant("variance", zeros + 1)
            scale, bias = b.constant("scale", ones), b.constant("bias", 0 * ones)
            normal = BatchNormTraining(
                x, scale, bias, mean, variance, epsilon=1e-5, channel_axis=1, momentum=0.75
            )
            b.save(b.emit(normal).results[0], "y")
            return b.function()

        points = POINTS[:8].astype(np.float16)
        trainer = make(function=build, loss=MeanSquaredError(), optimizer=SGD(0.0))
        trainer.step(points, points)
        expected = 0.25 * points.astype(np.float64).mean(0)
        assert trainer.weights["mean"].dtype == np.float32
        np.testing.assert_allclose(trainer.weights["mean"], expected, rtol=2e-2, atol=1e-4)


def _until(model: Any, output: str) -> Any:
    import onnx

    cut = onnx.ModelProto()
    cut.CopyFrom(model)
    del cut.graph.node[1:], cut.graph.output[:]
    cut.graph.output.append(
        onnx.helper.make_tensor_value_info(output, onnx.TensorProto.FLOAT, ["batch", 3, 4, 4])
    )
    return cut
