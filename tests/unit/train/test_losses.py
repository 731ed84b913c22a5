"""Losses and their gradients beside PyTorch's in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import glow_nb
from glow_nb.base.errors import FeedError, OptionError
from glow_nb.base.types import Array, ElementKind, TensorType
from glow_nb.hlir.evaluate import evaluate
from glow_nb.train import Huber, Loss, MeanSquaredError, SigmoidCrossEntropy, SoftmaxCrossEntropy
from glow_nb.train.step import LOSS, PREDICTION, TARGET, loss_function

LOGITS = np.array([[1, -2, 0.5], [0, 3, -1], [100, -100, 0], [0.2, 0.1, -0.3]], np.float64)
CLASSES = np.array([2, 1, 1, 0])
SHARES = np.array([[0.2, 0.3, 0.5], [0, 1, 0], [1, 0, 0], [0.5, 0.5, 0]], np.float64)
WEIGHTS = (1.0, 2.0, 0.5)
ALL = SoftmaxCrossEntropy(label_smoothing=0.2, ignored_index=1, class_weights=WEIGHTS)

CASES = {
    "plain": (
        SoftmaxCrossEntropy(), CLASSES, 50.4978271,
        [[0.1509372, 0.0075147, -0.1584519], [0.0116532, -0.0159401, 0.004287],
         [0.25, -0.25, 0.0], [-0.1504527, 0.0900742, 0.0603785]],
    ),
    "label smoothing": (
        SoftmaxCrossEntropy(label_smoothing=0.1), CLASSES, 48.0778271,
        [[0.1426039, -0.0008186, -0.1417853], [0.0033198, 0.0007266, -0.0040464],
         [0.2416667, -0.2333333, -0.0083333], [-0.133786, 0.0817408, 0.0520452]],
    ),
    "ignored index": (
        SoftmaxCrossEntropy(ignored_index=1), CLASSES, 0.9627123,
        [[0.3018744, 0.0150294, -0.3169039], [0.0, 0.0, 0.0],
         [0.0, 0.0, 0.0], [-0.3009053, 0.1801483, 0.120757]],
    ),
    "class weights": (
        SoftmaxCrossEntropy(class_weights=WEIGHTS), CLASSES, 73.0099807,
        [[0.0548863, 0.0027326, -0.0576189], [0.01695, -0.0231856, 0.0062356],
         [0.3636364, -0.3636364, 0.0], [-0.1094201, 0.0655085, 0.0439116]],
    ),
    "all of them": (
        ALL, CLASSES, 1.2785111,
        [[0.2104718, -0.0761974, -0.1342744], [0.0, 0.0, 0.0],
         [0.0, 0.0, 0.0], [-0.3034696, 0.1593154, 0.1441541]],
    ),
    "shares": (
        SoftmaxCrossEntropy(), SHARES, 0.6728271,
        [[0.1009372, -0.0674853, -0.0334519], [0.0116532, -0.0159401, 0.004287],
         [0.0, 0.0, 0.0], [-0.0254527, -0.0349258, 0.0603785]],
    ),
    "shares with all": (
        SoftmaxCrossEntropy(label_smoothing=0.2, class_weights=WEIGHTS), SHARES, 8.5955602,
        [[0.1053393, -0.1452675, 0.0399282], [0.0046975, -0.0042235, -0.0004739],
         [0.0416667, -0.0333333, -0.0083333], [0.0260178, -0.104227, 0.0782092]],
    ),
    "sigmoid": (
        SigmoidCrossEntropy(), SHARES, 0.5216084,
        [[0.0442549, -0.0150664, 0.0102049], [0.0416667, -0.0039522, 0.0224118],
         [0.0, 0.0, 0.0416667], [0.0041528, 0.0020816, 0.0354631]],
    ),
    "sigmoid with a weight": (
        SigmoidCrossEntropy(3.0), SHARES, 0.7895458,
        [[0.0352902, -0.0591063, -0.0212568], [0.0416667, -0.0118565, 0.0224118],
         [0.0, 0.0, 0.0416667], [-0.033361, -0.0375035, 0.0354631]],
    ),
    "squares": (
        MeanSquaredError(), SHARES, 1651.0225,
        [[0.1333333, -0.3833333, 0.0], [0.0, 0.3333333, -0.1666667],
         [16.5, -16.6666667, 0.0], [-0.05, -0.0666667, -0.05]],
    ),
    "huber": (
        Huber(0.7), SHARES, 11.8558333,
        [[0.0583333, -0.0583333, 0.0], [0.0, 0.0583333, -0.0583333],
         [0.0583333, -0.0583333, 0.0], [-0.025, -0.0333333, -0.025]],
    ),
}  # fmt: skip


def evaluated(loss: Loss, prediction: Array, targets: Array) -> tuple[float, Array]:
    """Return the loss and its gradient."""
    type = TensorType.of(prediction)
    wanted = loss.targets(type, targets)
    function = loss_function(loss, type, TensorType.of(wanted))
    both = glow_nb.differentiate(function, [PREDICTION], LOSS)
    outputs = evaluate(both, {PREDICTION: prediction, TARGET: wanted})
    return float(outputs[LOSS]), outputs[f"d_{PREDICTION}"]


@pytest.mark.parametrize("name", CASES)
def test_loss_and_gradient_are_those_of_pytorch(name: str) -> None:
    loss, targets, value, gradient = CASES[name]
    found, slope = evaluated(loss, LOGITS, targets)
    assert found == pytest.approx(value, rel=1e-7)
    np.testing.assert_allclose(slope, gradient, atol=1e-7)


def test_axis_of_the_classes() -> None:
    """Classes may lie anywhere: the same loss for the transpose, and for a batch of images."""
    expected, slope = evaluated(SoftmaxCrossEntropy(), LOGITS, CLASSES)
    found, transposed = evaluated(
        SoftmaxCrossEntropy(axis=0), np.ascontiguousarray(LOGITS.T), CLASSES
    )
    assert found == pytest.approx(expected)
    np.testing.assert_allclose(transposed.T, slope)
    image = np.ascontiguousarray(LOGITS.T).reshape(1, 3, 2, 2)
    assert evaluated(SoftmaxCrossEntropy(), image, CLASSES.reshape(1, 2, 2))[0] == found


def test_other_classes_may_be_impossible() -> None:
    logits = np.array([[0.0, -np.inf, 0.0]])
    loss, slope = evaluated(SoftmaxCrossEntropy(), logits, np.array([0]))
    assert loss == pytest.approx(np.log(2))
    np.testing.assert_allclose(slope, [[-0.5, 0, 0.5]])


@pytest.mark.parametrize("target", [0.0, 1.0])
@pytest.mark.parametrize("size", [20.0, 1e4])
def test_sigmoid_keeps_its_accuracy_far_from_0(target: float, size: float) -> None:
    logit = np.array([[size if target else -size]], np.float32)
    loss, slope = evaluated(SigmoidCrossEntropy(), logit, np.array([[target]], np.float32))
    assert loss == pytest.approx(np.log1p(np.exp(-size)), rel=1e-6)
    assert abs(slope[0, 0]) == pytest.approx(1 / (1 + np.exp(min(size, 700))), rel=1e-6)


@pytest.mark.parametrize(
    ("loss", "targets", "message"),
    [
        (SoftmaxCrossEntropy(), np.array([0, 3, 1, 1]), r"3 at \[1\] is no class.* 0 to 2"),
        (SoftmaxCrossEntropy(), np.array([0, -1, 1, 1]), r"-1 at \[1\] is no class"),
        (SoftmaxCrossEntropy(ignored_index=9), np.full(4, 9), r"all are 9, the ignored number"),
        (SoftmaxCrossEntropy(), np.zeros(3, int), r"int64 of shape \[3\].*of shape \[4\]"),
        (SoftmaxCrossEntropy(), np.zeros(4), r"float64 of shape \[4\]"),
        (SigmoidCrossEntropy(), np.full((4, 3), 1.5), r"1.5 at \[0, 0\] is no probability"),
        (MeanSquaredError(), np.zeros(4), r"shape is \[4\], but the prediction is \[4, 3\]"),
        (Huber(), np.zeros((4, 1)), r"shape is \[4, 1\]"),
        (
            MeanSquaredError(),
            np.full((4, 3), "a"),
            "dtype is <U1, the prediction is float64<4 x 3>",
        ),
        (SoftmaxCrossEntropy(), np.full((4, 3), 1j), "dtype is complex128"),
    ],
)
def test_targets_that_do_not_fit(loss: Loss, targets: Array, message: str) -> None:
    with pytest.raises(FeedError, match=f"^targets: .*{message}"):
        loss.targets(TensorType.of(LOGITS), targets)


def test_a_prediction_of_one_number_has_one_target() -> None:
    given = MeanSquaredError().targets(TensorType(ElementKind.FLOAT32, ()), np.array(3))
    assert TensorType.of(given) == TensorType(ElementKind.FLOAT32, ())


def test_options_may_be_of_numpy() -> None:
    options: Any = {
        "axis": np.int64(1),
        "label_smoothing": np.float32(0.5),
        "class_weights": np.array(WEIGHTS),
    }
    loss = SoftmaxCrossEntropy(**options)
    assert loss == SoftmaxCrossEntropy(label_smoothing=0.5, class_weights=WEIGHTS)
    assert isinstance(hash(loss), int)


@pytest.mark.parametrize(
    "make",
    [
        lambda: SoftmaxCrossEntropy(label_smoothing=1.5),
        lambda: SoftmaxCrossEntropy(class_weights=(1.0, -1.0)),
        lambda: SigmoidCrossEntropy(-1.0),
        lambda: Huber(0.0),
        lambda: SoftmaxCrossEntropy(class_weights=5),  # type: ignore[arg-type]
        lambda: SoftmaxCrossEntropy(axis="1"),  # type: ignore[arg-type]
        lambda: SoftmaxCrossEntropy(ignored_index=1.5),  # type: ignore[arg-type]
        lambda: evaluated(SoftmaxCrossEntropy(axis=2), LOGITS, CLASSES),
        lambda: evaluated(SoftmaxCrossEntropy(class_weights=(1.0,)), LOGITS, CLASSES),
    ],
)
def test_options_without_meaning_are_refused(make: object) -> None:
    assert callable(make)
    with pytest.raises(OptionError):
        make()
