"""What trainers are tested with."""

from __future__ import annotations

from typing import Any

from glow_nb.train import SGD, SoftmaxCrossEntropy, Trainer
from tests.unit.train.networks import corners, perceptron

POINTS, REGIONS = corners()


def make(**options: Any) -> Trainer:
    """Return a trainer of the perceptron; by default it compiles nothing."""
    given = {"loss": SoftmaxCrossEntropy(), "optimizer": SGD(0.1, momentum=0.9)} | options
    return Trainer(given.pop("function", perceptron), **{"backend": "interpreter", **given})
