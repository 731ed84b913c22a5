"""The trainer: what is trained, and what comes out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper
from onnx.numpy_helper import from_array

import glow_nb
from glow_nb.base.errors import FeedError, GlowError, GlowWarning, OptionError
from glow_nb.base.types import Array
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Function
from glow_nb.hlir.ops import BatchNormTraining, MatMul
from glow_nb.hlir.ops.random import Drawn
from glow_nb.train import SGD, Adam, MeanSquaredError, SoftmaxCrossEntropy, StepDecay, Trainer
from tests.in_turn import marked
from tests.unit.formats.onnx.importer.models import model as onnx_model
from tests.unit.formats.onnx.importer.models import value
from tests.unit.train.networks import (
    dropping,
    gated,
    in_training_mode,
    normalized_model,
    perceptron,
)
from tests.unit.train.trainers import POINTS, REGIONS, make


def accuracy(scores: Array, regions: Array) -> float:
    return float((scores.argmax(1) == regions).mean())


def test_a_network_learns() -> None:
    trainer = make(metrics={"accuracy": accuracy})
    history = trainer.fit((POINTS, REGIONS, 20), 8, validation=(POINTS, REGIONS, 30))
    assert [epoch.number for epoch in history] == list(range(1, 9))
    assert [epoch.steps for epoch in history] == [10] * 8
    assert history.losses[-1] < history.losses[0] / 2
    assert history.validation("accuracy")[-1] > 0.85
    assert history.validation() == sorted(history.validation(), reverse=True)
    assert (trainer.steps, trainer.epochs) == (80, 8)
    assert repr(trainer) == "<Trainer of 4 weights with 131 numbers, 80 steps made>"


def test_what_is_frozen_is_what_was_trained() -> None:
    trainer = make()
    trainer.fit((POINTS, REGIONS, 20), 1)
    function = trainer.freeze(POINTS[:7])
    assert {constant.name for constant in function.constants} == {"w1", "b1", "w2", "b2"}
    for constant in function.constants:
        np.testing.assert_array_equal(constant.array, trainer.weights[constant.name])
    expected = trainer.predict(POINTS[:7])["y"]
    found = glow_nb.compile(function, backend="interpreter").run(POINTS[:7])["y"]
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_weights_that_are_frozen_stay() -> None:
    trainer = make(frozen=("w*",))
    before = {c.name: c.array for c in perceptron(1).constants}
    trainer.step(POINTS[:20], REGIONS[:20])
    after = {constant.name: constant.array for constant in trainer.freeze().constants}
    assert {name for name in before if (after[name] != before[name]).any()} == {"b1", "b2"}
    assert set(trainer.weights) == {"b1", "b2"}


def test_a_schedule_compiles_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = make(optimizer=SGD(StepDecay(0.1, 1, 0.5)))
    points, regions = POINTS[:20], REGIONS[:20]
    moves = []
    for _ in range(2):
        before = trainer.weights["b2"]
        trainer.step(points, regions)
        moves.append(np.abs(trainer.weights["b2"] - before).max())
        monkeypatch.setattr("glow_nb.train.networks.compile", None)
    assert moves[1] == pytest.approx(moves[0] / 2, rel=0.2)


def test_parts_of_a_batch_are_as_the_whole() -> None:
    whole, parts = (make(optimizer=Adam(0.01, clip_norm=0.1), micro_batches=n) for n in (1, 4))
    for _ in range(3):
        losses = [t.step(POINTS[:40], REGIONS[:40]) for t in (whole, parts)]
        assert losses[0] == pytest.approx(losses[1], rel=1e-6)
    for name, weight in whole.weights.items():
        np.testing.assert_allclose(parts.weights[name], weight, atol=1e-6)


COUNTING = [
    SoftmaxCrossEntropy(ignored_index=-1),
    SoftmaxCrossEntropy(class_weights=(0.5, 2.0, 1.0)),
    SoftmaxCrossEntropy(ignored_index=-1, class_weights=(0.5, 2.0, 1.0), label_smoothing=0.1),
]
"""Losses that are no mean over samples."""


def with_ignored(regions: Array) -> Array:
    """Return *regions*, of which each quarter has another number of targets that are ignored."""
    ignored = regions.copy()
    for quarter in range(4):
        ignored[10 * quarter : 11 * quarter] = -1
    return ignored


@pytest.mark.parametrize("loss", COUNTING)
def test_parts_count_as_their_targets_do(loss: SoftmaxCrossEntropy) -> None:
    whole, parts = (make(loss=loss, micro_batches=n) for n in (1, 4))
    targets = REGIONS[:40] if loss.ignored_index is None else with_ignored(REGIONS[:40])
    for _ in range(3):
        losses = [t.step(POINTS[:40], targets) for t in (whole, parts)]
        assert losses[0] == pytest.approx(losses[1], rel=1e-6)
    for name, weight in whole.weights.items():
        np.testing.assert_allclose(parts.weights[name], weight, atol=1e-6)


@pytest.mark.parametrize("loss", COUNTING)
def test_the_loss_of_all_batches_is_that_of_one(loss: SoftmaxCrossEntropy) -> None:
    trainer = make(loss=loss, metrics={"accuracy": accuracy})
    targets = REGIONS[:40] if loss.ignored_index is None else with_ignored(REGIONS[:40])
    first, *others = (trainer.evaluate((POINTS[:40], targets, size)) for size in (40, 7, 10))
    for other in others:
        assert other == pytest.approx(first, rel=1e-6)


def test_what_is_computed_again_needs_no_memory() -> None:
    usual, again = (make(function=gated, recompute=choice) for choice in (None, "auto"))
    bytes_of = [t.memory(POINTS, REGIONS).lower_bound_bytes for t in (usual, again)]
    assert bytes_of[1] < bytes_of[0]
    assert make(function=gated, recompute=bytes_of[0]).memory(POINTS, REGIONS).arena_bytes <= (
        bytes_of[0] + 4096
    )
    for trainer in (usual, again):
        trainer.step(POINTS, REGIONS)
    np.testing.assert_allclose(usual.weights["w1"], again.weights["w1"], rtol=1e-6)


def test_batches_of_other_sizes_train_the_same_weights() -> None:
    trainer, other = make(), make()
    for size in (20, 7, 20):
        trainer.step(POINTS[:size], REGIONS[:size])
    for size in (20, 7):
        other.step(POINTS[:size], REGIONS[:size])
    other.step(POINTS[:20], REGIONS[:20])
    for name, weight in trainer.weights.items():
        np.testing.assert_array_equal(other.weights[name], weight)


def test_a_name_with_brackets_is_a_name() -> None:
    def build(batch: int) -> Function:
        b = Builder("bracketed")
        first = b.constant("layers[0].w", np.eye(4, dtype=np.float32))
        x = b.emit(MatMul(b.input("x", f"float32<{batch} x 4>"), first))
        b.save(b.emit(MatMul(x, b.constant("w", np.eye(4, 3, dtype=np.float32)))), "y")
        return b.function()

    assert list(make(function=build, frozen="layers[0].w").weights) == ["w"]


def test_the_sizes_that_came_last_are_frozen() -> None:
    trainer = make()
    for size in (4, 5, 4):
        trainer.predict(POINTS[:size])
    assert trainer.freeze().inputs[0].type.shape == (4, 4)


def test_a_model_of_one_size_says_so_at_once() -> None:
    with pytest.raises(OptionError, match="micro_batches=2: the network takes batches of 4 alone"):
        make(function=perceptron(4), micro_batches=2)
    trainer = make(function=perceptron(4))
    with pytest.raises(FeedError, match="10 samples to evaluate: .* batches of 4 alone"):
        trainer.fit((POINTS, REGIONS, 4), 1, validation=(POINTS[:10], REGIONS[:10], 4))
    assert trainer.steps == 0


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


class TestDropout:
    """Elements are dropped in training alone, others in each step."""

    def test_each_step_draws_anew_and_goes_on_from_a_checkpoint(self, tmp_path: Path) -> None:
        still = SGD(0.0)
        trainer, other, seeded = (make(function=dropping, optimizer=still) for _ in range(3))
        losses = [trainer.step(POINTS, REGIONS) for _ in range(3)]
        assert len(set(losses)) == 3
        other.step(POINTS, REGIONS)
        other.save(tmp_path / "checkpoint")
        seeded.load(tmp_path / "checkpoint")
        assert [seeded.step(POINTS, REGIONS) for _ in range(2)] == losses[1:]
        assert make(function=dropping, seed=1).step(POINTS, REGIONS) != losses[0]

    def test_nothing_is_dropped_in_use(self) -> None:
        trainer = make(function=dropping)
        expected = POINTS[:, :3]
        np.testing.assert_allclose(trainer.predict(POINTS)["y"], expected, rtol=1e-5, atol=1e-5)
        frozen = glow_nb.compile(trainer.freeze(POINTS), backend="interpreter")
        np.testing.assert_allclose(frozen.run(POINTS)["y"], expected, rtol=1e-5, atol=1e-5)

    @pytest.mark.parametrize(
        ("opset", "inputs", "attributes"),
        [
            (7, [], {"ratio": 0.25}),
            (10, [], {"ratio": 0.25}),
            (12, ["ratio"], {}),
            (13, ["ratio"], {"seed": 7}),
            (13, ["ratio", "is_training"], {}),
            (22, ["ratio", "is_constant"], {}),
        ],
    )
    @pytest.mark.parametrize(("outputs", "rows"), [(["d"], 300), (["d", "kept"], "n")])
    def test_a_model_in_inference_mode_drops_in_training(
        self,
        opset: int,
        inputs: list[str],
        attributes: dict[str, Any],
        outputs: list[str],
        rows: Any,
    ) -> None:
        """As PyTorch's ``model.train()`` does, by the ratio that the model has."""
        weights = {
            "ratio": np.float32(0.25),
            "is_training": np.array(False),
            "w": np.ones(1, np.float32),
        }
        nodes = [
            helper.make_node("Constant", [], ["is_constant"], value=from_array(np.array(False))),
            helper.make_node("Dropout", ["x", *inputs], outputs, **attributes),
            helper.make_node("Mul", ["d", "w"], ["y"]),
        ]
        if len(outputs) > 1:
            nodes.append(helper.make_node("Cast", ["kept"], ["mask"], to=TensorProto.FLOAT))
        model = onnx_model(
            nodes,
            [value("x", (rows, 200))],
            outputs=["y", "mask"][: len(outputs)],
            weights=[from_array(np.asarray(array), name) for name, array in weights.items()],
            opset=opset,
        )
        ones = np.ones((300, 200), np.float32)
        trainer = make(
            function=model, loss=MeanSquaredError(), optimizer=SGD(1.0), output="y", trained="w"
        )
        trainer.step(ones, ones * 0)
        # The loss is the mean of (w m)^2, m being 0 or 1 / 0.75: its slope is 2 w mean(m^2).
        np.testing.assert_allclose(trainer.weights["w"], 1 - 2 / 0.75, rtol=2e-2)
        used = trainer.predict(ones)
        assert all((array == 1).all() for name, array in used.items() if name == "mask")
        np.testing.assert_array_equal(used["y"], ones * trainer.weights["w"])
        for function in (trainer.freeze(ones), glow_nb.load(model, shapes={"x": ones.shape})):
            assert not any(isinstance(node, Drawn) for node in function)

    def test_a_function_has_the_dropouts_that_its_nodes_are(self) -> None:
        """``glow_nb.load`` is the model in use: a trainer of what it returns drops nothing."""
        nodes = [
            helper.make_node("Dropout", ["x"], ["d"]),
            helper.make_node("MatMul", ["d", "w"], ["y"]),
        ]
        weights = [from_array(np.eye(4, 3, dtype=np.float32), "w")]
        model = onnx_model(nodes, [value("x", (8, 4))], weights=weights)
        losses = [
            make(function=f, loss=MeanSquaredError()).step(POINTS[:8], POINTS[:8, :3])
            for f in (model, glow_nb.load(model))
        ]
        assert losses[0] > 0.1
        assert losses[1] == 0


def _until(model: Any, output: str) -> Any:
    import onnx

    cut = onnx.ModelProto()
    cut.CopyFrom(model)
    del cut.graph.node[1:], cut.graph.output[:]
    cut.graph.output.append(
        onnx.helper.make_tensor_value_info(output, onnx.TensorProto.FLOAT, ["batch", 3, 4, 4])
    )
    return cut


class TestFit:
    """Epochs, early stop, and going on."""

    def test_a_checkpoint_that_cannot_be_written_is_found_before_the_first_step(
        self, tmp_path: Path
    ) -> None:
        trainer = make()
        with pytest.raises(GlowError, match="cannot be written"):
            trainer.fit((POINTS, REGIONS, 20), 1, checkpoint=tmp_path / "no" / "checkpoint")
        assert trainer.steps == 0

    def test_it_stops_when_nothing_gets_better(self) -> None:
        trainer = make(optimizer=SGD(0.0))
        history = trainer.fit((POINTS, REGIONS, 200), 9, (POINTS, REGIONS, 50), patience=2)
        assert len(history) == 3

    def test_equal_seeds_give_equal_bits(self) -> None:
        first, second, third = (make(seed=seed) for seed in (1, 1, 2))
        for trainer in (first, second, third):
            trainer.fit((POINTS, REGIONS, 20), 2)
        assert (first.weights["w1"] == second.weights["w1"]).all()
        assert (first.weights["w1"] != third.weights["w1"]).any()

    @pytest.mark.parametrize("steps", marked([3, 10, 13], only=[13]))
    def test_a_checkpoint_goes_on_bit_by_bit(self, steps: int, tmp_path: Path) -> None:
        """Wherever ``fit`` was interrupted: within an epoch, at its end, in the second one."""
        path = tmp_path / "checkpoint"
        whole, stopped, goes_on = (make(optimizer=Adam(0.01)) for _ in range(3))
        history = whole.fit((POINTS, REGIONS, 20), 3)
        with pytest.raises(_Stop):
            _stop_after(stopped, steps).fit((POINTS, REGIONS, 20), 3, checkpoint=path, every=1)
        goes_on.load(path)
        assert goes_on.steps == steps
        more = goes_on.fit((POINTS, REGIONS, 20), 3)
        assert more.losses == history.losses
        assert (goes_on.steps, goes_on.epochs) == (whole.steps, whole.epochs) == (30, 3)
        for name, weight in whole.weights.items():
            np.testing.assert_array_equal(goes_on.weights[name], weight)

    def test_a_fit_that_ended_is_followed_by_another(self, tmp_path: Path) -> None:
        whole, first, second = make(), make(), make()
        whole.fit((POINTS, REGIONS, 20), 2)
        first.fit((POINTS, REGIONS, 20), 1, checkpoint=tmp_path / "checkpoint")
        second.load(tmp_path / "checkpoint")
        assert [e.number for e in second.fit((POINTS, REGIONS, 20), 1)] == [2]
        np.testing.assert_array_equal(second.weights["w2"], whole.weights["w2"])

    @pytest.mark.parametrize(
        "options",
        [{"epochs": -1}, {"epochs": 1, "patience": 0}, {"epochs": 1, "every": 0}],
    )
    def test_numbers_without_meaning_are_refused(self, options: Any) -> None:
        with pytest.raises(OptionError, match="give a whole number"):
            make().fit((POINTS, REGIONS, 20), **options)


class _Stop(Exception):
    """Ends a fit where it stands."""


def _stop_after(trainer: Trainer, steps: int) -> Trainer:
    step = trainer.step

    def stopping(inputs: Any, targets: Any) -> float:
        if trainer.steps == steps:
            raise _Stop
        return step(inputs, targets)

    trainer.step = stopping  # type: ignore[method-assign]
    return trainer
