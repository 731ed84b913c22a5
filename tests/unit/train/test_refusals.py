"""What a trainer refuses, and steps that fail: the error says why and nothing is changed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from glow_nb.base.errors import FeedError, GradientError, OptionError, TrainingError
from glow_nb.base.types import Array, ElementKind
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Function, Value
from glow_nb.hlir.ops import BitCast, MatMul, Mul
from glow_nb.hlir.ops.elementwise import Sqrt
from glow_nb.hlir.ops.formulas.terms import Term
from glow_nb.network.network import CompiledNetwork
from glow_nb.train import SGD, Adam, MeanSquaredError, SoftmaxCrossEntropy, Trainer
from glow_nb.train.sums import mean, total
from tests.in_turn import in_turn
from tests.unit.train.networks import dropping
from tests.unit.train.trainers import POINTS, REGIONS, make


@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize(
    ("number", "message"),
    [
        (np.nan, r"the loss is nan: the input %x .* holds nan at \[0, 0\]"),
        (3e38, r"%fully_connected.* is the first operator .* has -?inf at"),
    ],
)
def test_a_loss_that_is_not_finite(parts: int, number: float, message: str) -> None:
    trainer = make(optimizer=Adam(0.01), micro_batches=parts)
    trainer.step(POINTS[:20], REGIONS[:20])
    before = trainer.weights
    broken = POINTS[:20].copy()
    broken[10 * (parts - 1) :] = number
    with pytest.raises(TrainingError, match=message):
        trainer.step(broken, REGIONS[:20])
    assert trainer.steps == 1
    for name, weight in trainer.weights.items():
        np.testing.assert_array_equal(weight, before[name])
    other = make(optimizer=Adam(0.01), micro_batches=parts)
    for _ in range(2):
        other.step(POINTS[:20], REGIONS[:20])
    trainer.step(POINTS[:20], REGIONS[:20])
    np.testing.assert_array_equal(trainer.weights["w1"], other.weights["w1"])


@pytest.mark.parametrize("parts", [1, 2])
def test_gradients_that_are_not_finite_though_the_loss_is(parts: int) -> None:
    """The root of 0 is 0 and its slope is infinite; the gradients are looked at to be clipped."""

    def build(batch: int) -> Function:
        b = Builder("flat")
        w = b.constant("w", np.zeros((4, 3), np.float32))
        b.save(b.emit(MatMul(b.input("x", f"float32<{batch} x 4>"), w)), "y")
        return b.function()

    optimizer = Adam(0.1, clip_norm=1.0)
    trainer = make(function=build, loss=root, optimizer=optimizer, micro_batches=parts)
    points = np.abs(POINTS[:4])
    with pytest.raises(
        TrainingError, match=r"length of the gradients .*'w'.* though the loss is 0\.0"
    ):
        trainer.step(points, points)
    assert trainer.steps == 0
    np.testing.assert_array_equal(trainer.weights["w"], np.zeros((4, 3)))


@pytest.mark.jit
@pytest.mark.parametrize(("backend", "parts"), in_turn(["interpreter", "cpu"], [1, 2]))
def test_a_gradient_that_is_not_finite_is_refused_with_its_weight(parts: int, backend: str) -> None:
    """The slope of a root at 0 is infinite; the other weight of the network stays as it is, too."""
    optimizer, points = SGD(0.1, momentum=0.9), np.abs(POINTS[:4])
    options: dict[str, Any] = {
        "loss": root,
        "optimizer": optimizer,
        "micro_batches": parts,
        "threads": 1,
    }
    trainer = Trainer(scaled_product, backend=backend, **options)
    with pytest.raises(
        TrainingError, match=r"the gradient of 'scale', 'w' is not finite, though the loss is 0\.0"
    ):
        trainer.step(points, points)
    assert trainer.steps == 0
    np.testing.assert_array_equal(trainer.weights["w"], np.zeros((4, 3)))
    np.testing.assert_array_equal(trainer.weights["scale"], np.ones((1, 4)))
    unchecked = Trainer(scaled_product, backend=backend, check_gradients=False, **options)
    unchecked.step(points, points)
    assert not np.isfinite(unchecked.weights["w"]).any()


def test_finite_gradients_are_taken_though_their_sum_is_not() -> None:
    def build(batch: int) -> Function:
        b = Builder("product")
        x = b.input("x", f"float32<{batch} x 4>")
        b.save(b.emit(Mul(x, b.constant("w", np.zeros((1, 4), np.float32)))), "y")
        return b.function()

    def total_of(builder: Builder, prediction: Value, target: Value) -> Value:
        return total(Term(builder, prediction)).value

    trainer = Trainer(build, loss=total_of, optimizer=SGD(1e-38), backend="interpreter")
    trainer.step(np.full((1, 4), 3e38, np.float32), np.zeros((1, 4), np.float32))
    np.testing.assert_allclose(trainer.weights["w"], np.full((1, 4), -3.0), rtol=1e-6)


def scaled_product(batch: int) -> Function:
    b = Builder("scaled")
    x = b.input("x", f"float32<{batch} x 4>")
    scaled = b.emit(Mul(x, b.constant("scale", np.ones((1, 4), np.float32))))
    b.save(b.emit(MatMul(scaled, b.constant("w", np.zeros((4, 3), np.float32)))), "y")
    return b.function()


def root(builder: Builder, prediction: Value, target: Value) -> Value:
    return mean(Term(builder, prediction).apply(Sqrt))


def test_a_function_as_loss_whose_targets_do_not_fit() -> None:
    def squared(builder: Builder, prediction: Value, target: Value) -> Value:
        distance = Term(builder, prediction) - Term(builder, target)
        return mean(distance * distance)

    message = r"'squared': .* prediction of float32<4 x 3> with targets of float64<4 x 3>: sub"
    for asked in (make(loss=squared).step, lambda *batch: make(loss=squared).evaluate([batch])):
        with pytest.raises(FeedError, match=message):
            asked(POINTS[:4], np.zeros((4, 3)))


def test_an_interrupt_within_a_step_undoes_its_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    trainer, other = (make(function=dropping, micro_batches=2) for _ in range(2))
    runs = []
    run = CompiledNetwork.run

    def interrupted(network: CompiledNetwork, inputs: Any) -> dict[str, Array]:
        runs.append(network)
        if len(runs) == 2:
            raise KeyboardInterrupt
        return run(network, inputs)

    with monkeypatch.context() as patch:
        patch.setattr(CompiledNetwork, "run", interrupted)
        with pytest.raises(KeyboardInterrupt):
            trainer.step(POINTS[:20], REGIONS[:20])
    for one in (trainer, other):
        one.step(POINTS[:20], REGIONS[:20])
    np.testing.assert_array_equal(trainer.weights["w"], other.weights["w"])


def test_a_part_whose_targets_are_all_ignored() -> None:
    trainer = make(loss=SoftmaxCrossEntropy(ignored_index=-1), micro_batches=2)
    message = "micro-batch 2 of 2, samples 2 to 3 of the batch: targets: all are -1.*; give fewer"
    with pytest.raises(FeedError, match=message):
        trainer.step(POINTS[:4], np.array([0, 1, -1, -1]))


def test_targets_whose_weights_are_all_0() -> None:
    trainer = make(loss=SoftmaxCrossEntropy(class_weights=(0, 1, 1)))
    with pytest.raises(FeedError, match="targets: all are of classes whose class_weights are 0"):
        trainer.step(POINTS[:4], np.zeros(4, int))


def test_no_samples() -> None:
    for asked in (make().step, lambda *batch: make().evaluate([batch])):
        with pytest.raises(FeedError, match=r"targets: shape is \[0\], which holds no sample"):
            asked(POINTS[:0], REGIONS[:0])


def test_operators_without_gradient_are_all_named() -> None:
    def of_bits(builder: Builder, prediction: Value, target: Value) -> Value:
        first = builder.emit(BitCast(prediction, kind=ElementKind.FLOAT32), "first")
        second = builder.emit(BitCast(first, kind=ElementKind.FLOAT32), "second")
        return mean(Term(builder, second))

    with pytest.raises(GradientError, match=r"bit_cast %first, bit_cast %second \(it takes"):
        make(loss=of_bits).step(POINTS[:4], REGIONS[:4])


def test_a_loss_without_weights() -> None:
    def constant(builder: Builder, prediction: Value, target: Value) -> Value:
        return builder.constant("number", np.ones(1, np.float32))

    with pytest.raises(GradientError, match="does not depend on any of w1, b1, w2, b2"):
        make(loss=constant).step(POINTS[:4], REGIONS[:4])


@pytest.mark.parametrize(
    ("inputs", "targets", "message"),
    [
        (POINTS[:4, :3], REGIONS[:4], r"input 'x': shape is \[4, 3\]"),
        (POINTS[:4].astype(float), REGIONS[:4], "input 'x': dtype is float64"),
        ({"z": POINTS[:4]}, REGIONS[:4], "unknown input 'z'"),
        (POINTS[:4], REGIONS[:3], r"targets: int64 of shape \[3\]"),
        (POINTS[:4], REGIONS[:4] + 3, "targets: .* is no class"),
        (POINTS[:4], None, "targets"),
    ],
)
def test_arrays_that_do_not_fit(inputs: Any, targets: Any, message: str) -> None:
    with pytest.raises(FeedError, match=message):
        make().step(inputs, targets)


def test_a_batch_that_cannot_be_cut() -> None:
    with pytest.raises(FeedError, match=r"x: shape \[5, 4\] cannot be cut into 2 micro-"):
        make(micro_batches=2).step(POINTS[:5], REGIONS[:5])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"loss": 3}, "loss=3"),
        ({"loss": MeanSquaredError}, "loss=MeanSquaredError: a class; give an object of it, as M"),
        ({"optimizer": "adam"}, "optimizer='adam'"),
        ({"seed": -1}, "seed=-1"),
        ({"micro_batches": 0}, "micro_batches=0"),
        ({"recompute": "all"}, "recompute='all': give a number of bytes"),
        ({"recompute": -1}, "recompute=-1"),
        ({"frozen": ("v*",)}, r"'v\*' fits no weight"),
        ({"frozen": ("*",)}, "no weights to train: all of"),
        ({"output": "z"}, "output='z'"),
        ({"function": lambda batch: 3}, "returned 3; it must return the Function"),
        ({"frozen": None}, "frozen: None is no name; give names"),
        ({"frozen": (1,)}, "frozen: 1 is no name; give names"),
        ({"output": 5}, "output=5: give the name of an output"),
        ({"metrics": [max]}, "metrics=.* give a dict of functions"),
        ({"metrics": {"loss": max}}, "'loss' is the name of the loss itself; choose another one"),
        ({"seed": 1 << 70}, "seed=.* give a whole number from 0 to"),
    ],
)
def test_options_without_meaning(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        make(**options)


def test_a_loss_of_several_elements() -> None:
    with pytest.raises(OptionError, match="it must return a float of one element"):
        make(loss=lambda builder, prediction, target: prediction).step(POINTS, REGIONS)


def test_an_output_must_be_chosen() -> None:
    def two(batch: int) -> Function:
        b = Builder("two")
        x = b.input("x", f"float32<{batch} x 4>")
        product = b.emit(MatMul(x, b.constant("w", np.ones((4, 3), np.float32))))
        b.save(product, "y")
        b.save(x, "same")
        return b.function()

    with pytest.raises(OptionError, match=r"outputs \['y', 'same'\]; say by output="):
        make(function=two)
    trainer = make(function=two, output="y", loss=MeanSquaredError())
    trainer.step(POINTS[:4], np.ones((4, 3)))
    assert set(trainer.predict(POINTS[:4])) == {"y", "same"}
