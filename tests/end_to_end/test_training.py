"""Training in machine code: the same as the interpreter's, and the same bits every time."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from glow_nb.base.types import Array
from glow_nb.train import SGD, AdamW, Optimizer, SoftmaxCrossEntropy, Trainer
from tests.in_turn import in_turn
from tests.unit.train.networks import normalized_model

pytestmark = pytest.mark.jit

IMAGES = np.random.default_rng(2).normal(1, 2, (12, 2, 4, 4)).astype(np.float32)
LABELS = np.arange(12) % 2


def trained(optimizer: Optimizer, **options: object) -> tuple[list[float], dict[str, Array]]:
    """Return the losses of some steps, and the weights after them."""
    trainer = Trainer(
        normalized_model(),
        loss=SoftmaxCrossEntropy(),
        optimizer=optimizer,
        **options,  # type: ignore[arg-type]
    )
    losses = [trainer.step(IMAGES, LABELS) for _ in range(4)]
    return losses, trainer.weights


@functools.cache
def trained_by(optimizer: Optimizer, threads: int) -> tuple[list[float], dict[str, Array]]:
    """Return what so many threads train, once for all tests."""
    return trained(optimizer, threads=threads)


OPTIMIZERS: list[Optimizer] = [SGD(0.1, momentum=0.9), AdamW(0.01, clip_norm=0.5)]
"""The first is for the slow run; the default one compiles the kernels of the last one alone."""


@pytest.mark.parametrize(
    ("optimizer", "threads"),
    in_turn(OPTIMIZERS, [2, 1], slow=OPTIMIZERS[:1]),
)
def test_machine_code_trains_as_the_interpreter(optimizer: Optimizer, threads: int) -> None:
    expected, weights = trained(optimizer, backend="interpreter")
    found, own = trained_by(optimizer, threads)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    for name, weight in weights.items():
        np.testing.assert_allclose(own[name], weight, rtol=1e-4, atol=1e-5)


def test_equal_threads_give_equal_bits() -> None:
    first = trained_by(OPTIMIZERS[-1], 2)
    second = trained(OPTIMIZERS[-1], threads=2)
    assert first[0] == second[0]
    for name, weight in first[1].items():
        np.testing.assert_array_equal(second[1][name], weight)
