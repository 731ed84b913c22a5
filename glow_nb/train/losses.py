"""Losses, which training minimizes, as nodes of the graph.

A loss is a function ``(builder, prediction, target) -> value``, which emits nodes and returns one
number, the mean over the batch. The losses of this file are objects that also check targets.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from math import prod

import numpy as np
from typing_extensions import override

from glow_nb.base.arguments import array_of_numbers, as_integer, described
from glow_nb.base.errors import FeedError, OptionError
from glow_nb.base.types import Array, TensorType
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Value
from glow_nb.hlir.ops.activation import Clip, Softplus
from glow_nb.hlir.ops.formulas.terms import Term, where
from glow_nb.hlir.ops.normalization import LogSoftmax
from glow_nb.hlir.ops.shape import Reshape
from glow_nb.train.numbers import checked_number, keep_numbers
from glow_nb.train.sums import mean, total

LossFunction = Callable[[Builder, Value, Value], Value]
"""Emits the loss of a prediction, given the target; returns a float of one element."""


class Loss(ABC):
    """Base of losses that check targets."""

    @abstractmethod
    def __call__(self, builder: Builder, prediction: Value, target: Value) -> Value:
        """Emit the loss and return it."""

    def targets(self, prediction: TensorType, targets: Array) -> Array:
        """Return *targets* as the network takes them; raise FeedError if they do not fit."""
        if targets.shape != prediction.shape:
            raise FeedError(
                f"targets: shape is {list(targets.shape)}, but the prediction is "
                f"{list(prediction.shape)}; reshape one"
            )
        return _as_numbers(targets, prediction)

    def count(self, targets: Array) -> float:
        """Return the weight of the mean over *targets* among means over other targets; above 0.

        It is proportional to the divisor of the loss: here, the number of samples.
        """
        return samples_of(targets)


@dataclass(frozen=True)
class SoftmaxCrossEntropy(Loss):
    """The negative logarithm of the probability of the correct class; predictions are logits.

    ``-sum over c of share[c] * weight[c] * log_softmax(prediction)[c]``, where ``share`` is
    ``(1 - label_smoothing)`` at the target, plus ``label_smoothing / C`` for every class. With
    class numbers as targets, the sum is divided by the sum of the weights of the targets, with
    shares by the number of samples: PyTorch's ``CrossEntropyLoss``.

    Targets are class numbers, of the shape of the prediction without *axis*, or shares of classes
    (such as one-hot vectors), of the shape of the prediction.

    Attributes:
        axis: Axis of the classes.
        label_smoothing: Share that is distributed over all classes.
        ignored_index: A number that is no class: such targets are ignored.
        class_weights: The weight of each class.
    """

    axis: int = 1
    label_smoothing: float = 0.0
    ignored_index: int | None = None
    class_weights: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        keep_numbers(self, "label_smoothing", most=1)
        object.__setattr__(self, "axis", _as_integer("axis", self.axis))
        if self.ignored_index is not None:
            ignored = _as_integer("ignored_index", self.ignored_index)
            object.__setattr__(self, "ignored_index", ignored)
        if self.class_weights is not None:
            weights = array_of_numbers(OptionError, "class_weights", self.class_weights)
            if weights.ndim != 1:
                raise OptionError(
                    f"class_weights={described(self.class_weights)}: give one a class"
                )
            checked = tuple(checked_number("class_weights", weight) for weight in weights)
            object.__setattr__(self, "class_weights", checked)

    @override
    def __call__(self, builder: Builder, prediction: Value, target: Value) -> Value:
        axis = self._axis(prediction.type)
        log = Term(builder, builder.emit(LogSoftmax(prediction, axis)))
        if target.type.kind.is_float:
            return self._by_shares(builder, log, Term(builder, target), axis).value
        return self._by_numbers(builder, log, target, axis).value

    def _by_shares(self, builder: Builder, log: Term, shares: Term, axis: int) -> Term:
        classes = log.value.type.shape[axis]
        if self.label_smoothing:
            shares = (1 - self.label_smoothing) * shares + self.label_smoothing / classes
        weights = self._weights(builder, log, axis)
        terms = shares * log if weights is None else shares * log * weights
        return -total(terms) / float(log.value.type.size // classes)

    def _by_numbers(self, builder: Builder, log: Term, target: Value, axis: int) -> Term:
        shape = log.value.type.shape
        single = tuple(1 if i == axis else n for i, n in enumerate(shape))
        places = Term(builder, builder.emit(Reshape(target, single)))
        numbers = _along(np.arange(shape[axis], dtype=target.type.kind.dtype), len(shape), axis)
        classes = Term(builder, builder.constant("classes", numbers, is_weight=False))
        is_target = places.equals(classes)
        weights = self._weights(builder, log, axis)
        terms = self._smoothed(log if weights is None else log * weights, is_target, axis)
        if self.ignored_index is None and weights is None:
            return -total(terms) / float(prod(single))
        counts = where(is_target, log.number(1.0) if weights is None else weights, 0.0)
        if self.ignored_index is not None:
            is_ignored = places.equals(self.ignored_index)
            terms, counts = (where(is_ignored, 0.0, term) for term in (terms, counts))
        return -total(terms) / total(counts)

    def _smoothed(self, log: Term, is_target: Term, axis: int) -> Term:
        """Return *log* times the share of each class.

        The target's is chosen and not multiplied by 0 and 1: logarithms of others may be infinite.
        """
        chosen = where(is_target, log, 0.0)
        if not self.label_smoothing:
            return chosen
        everywhere = self.label_smoothing / log.value.type.shape[axis]
        return (1 - self.label_smoothing) * chosen + everywhere * log

    def _weights(self, builder: Builder, log: Term, axis: int) -> Term | None:
        if self.class_weights is None:
            return None
        type = log.value.type
        array = _along(np.array(self.class_weights, type.kind.dtype), type.rank, axis)
        return Term(builder, builder.constant("class_weights", array, is_weight=False))

    def _axis(self, prediction: TensorType) -> int:
        rank, axis = prediction.rank, self.axis
        if not -rank <= axis < rank:
            raise OptionError(f"axis={axis}: the prediction is {prediction} and has no such axis")
        axis %= rank
        if self.class_weights is not None and len(self.class_weights) != prediction.shape[axis]:
            raise OptionError(
                f"class_weights: there are {len(self.class_weights)}, but the prediction "
                f"{prediction} has {prediction.shape[axis]} classes along axis {axis}"
            )
        return axis

    @override
    def targets(self, prediction: TensorType, targets: Array) -> Array:
        axis = self._axis(prediction)
        if targets.shape == prediction.shape:
            return _as_numbers(targets, prediction)
        wanted = (*prediction.shape[:axis], *prediction.shape[axis + 1 :])
        if targets.shape != wanted or targets.dtype.kind not in "iu":
            raise FeedError(
                f"targets: {targets.dtype} of shape {list(targets.shape)} given, but the prediction"
                f" is {list(prediction.shape)} with the classes along axis {axis}; give class "
                f"numbers of shape {list(wanted)}, or shares of shape {list(prediction.shape)}, or "
                "name the axis by axis="
            )
        self._check_range(targets, prediction.shape[axis])
        if self.count(targets) == 0:
            raise FeedError(
                "targets: all are of classes whose class_weights are 0; a batch needs one with a "
                "positive weight"
            )
        return np.asarray(targets, np.int64, order="C")

    @override
    def count(self, targets: Array) -> float:
        """Return the sum of the weights of the targets that are not ignored.

        If there are no class weights, or targets are shares, it is the number of samples.
        """
        is_mean = self.ignored_index is None and self.class_weights is None
        if is_mean or targets.dtype.kind not in "iu":
            return super().count(targets)
        counted = targets if self.ignored_index is None else targets[targets != self.ignored_index]
        if self.class_weights is None:
            return float(counted.size)
        return float(np.array(self.class_weights)[counted].sum())

    def _check_range(self, targets: Array, classes: int) -> None:
        is_ignored = np.zeros(targets.shape, bool)
        if self.ignored_index is not None:
            is_ignored = targets == self.ignored_index
            if targets.size and is_ignored.all():
                raise FeedError(
                    f"targets: all are {self.ignored_index}, the ignored number; a batch needs one "
                    "that is not ignored"
                )
        is_wrong = ((targets < 0) | (targets >= classes)) & ~is_ignored
        if is_wrong.any():
            place = tuple(int(i) for i in np.argwhere(is_wrong)[0])
            raise FeedError(
                f"targets: {targets[place]} at {list(place)} is no class, the prediction has the "
                f"classes 0 to {classes - 1}; correct it, or name it as ignored_index="
            )


@dataclass(frozen=True)
class SigmoidCrossEntropy(Loss):
    """The mean of ``t * softplus(-x) + (1 - t) * softplus(x)`` over logits ``x`` and targets ``t``.

    That is ``-t * log(sigmoid(x)) - (1 - t) * log(1 - sigmoid(x))`` without overflow or
    cancellation; PyTorch's ``BCEWithLogitsLoss``. Targets are from 0 to 1.

    Attributes:
        positive_weight: The weight of the first term.
    """

    positive_weight: float = 1.0

    def __post_init__(self) -> None:
        keep_numbers(self, "positive_weight")

    @override
    def __call__(self, builder: Builder, prediction: Value, target: Value) -> Value:
        x, t = Term(builder, prediction), Term(builder, target)
        right, wrong = (-x).apply(Softplus), x.apply(Softplus)
        if self.positive_weight != 1:
            right = self.positive_weight * right
        return mean(t * right + (1.0 - t) * wrong)

    @override
    def targets(self, prediction: TensorType, targets: Array) -> Array:
        fitting = super().targets(prediction, targets)
        is_wrong = (fitting < 0) | (fitting > 1)
        if is_wrong.any():
            place = tuple(int(i) for i in np.argwhere(is_wrong)[0])
            raise FeedError(
                f"targets: {targets[place]} at {list(place)} is no probability; give numbers from "
                "0 to 1"
            )
        return fitting


@dataclass(frozen=True)
class MeanSquaredError(Loss):
    """The mean of ``(prediction - target) ** 2``."""

    @override
    def __call__(self, builder: Builder, prediction: Value, target: Value) -> Value:
        distance = Term(builder, prediction) - Term(builder, target)
        return mean(distance * distance)


@dataclass(frozen=True)
class Huber(Loss):
    """The mean of ``d * d / 2`` where the distance ``d`` is at most *delta*, linear beyond.

    Beyond *delta* it is ``delta * (abs(d) - delta / 2)``: PyTorch's ``HuberLoss``.

    Attributes:
        delta: The distance from which on the loss is linear.
    """

    delta: float = 1.0

    def __post_init__(self) -> None:
        keep_numbers(self, "delta", positive=True)

    @override
    def __call__(self, builder: Builder, prediction: Value, target: Value) -> Value:
        distance = Term(builder, prediction) - Term(builder, target)
        clipped = builder.emit(Clip(distance.value, minimum=-self.delta, maximum=self.delta))
        near = Term(builder, clipped)
        return mean(near * (distance - 0.5 * near))


def samples_of(targets: Array) -> float:
    """Return the number of samples of *targets*; a single number is one sample."""
    return float(len(targets)) if targets.ndim else 1.0


def _as_numbers(targets: Array, prediction: TensorType) -> Array:
    """Return *targets* in the kind of *prediction*; raise FeedError if they are no real numbers."""
    if targets.dtype.kind not in "biufV" or targets.dtype.names is not None:
        raise FeedError(
            f"targets: dtype is {targets.dtype}, the prediction is {prediction}; give real numbers"
        )
    return np.asarray(targets, prediction.kind.dtype, order="C")


def _as_integer(name: str, value: int) -> int:
    """Return the argument called *name* as an int; raise OptionError if it is none."""
    number = as_integer(value)
    if number is None:
        raise OptionError(f"{name}={described(value)}: give a whole number")
    return number


def _along(vector: Array, rank: int, axis: int) -> Array:
    """Return *vector* along *axis* of a tensor of *rank*, whose other sizes are 1."""
    return vector.reshape(tuple(-1 if i == axis else 1 for i in range(rank)))
