"""The trainer: what is trained, and what comes out."""

from __future__ import annotations

import numpy as np
import pytest

import glow_nb
from glow_nb.base.errors import FeedError, OptionError
from glow_nb.base.types import Array
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Function
from glow_nb.hlir.ops import MatMul
from glow_nb.train import SGD, Adam, SoftmaxCrossEntropy, StepDecay
from tests.unit.train.networks import (
    gated,
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
