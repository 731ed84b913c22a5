"""No name of a model is that of a state of the trainer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Function
from glow_nb.hlir.ops import Add, MatMul
from glow_nb.train import SGD, MeanSquaredError, Trainer
from glow_nb.train.states import COUNTER
from tests.in_turn import in_turn

X = np.random.default_rng(1).normal(size=(4, 3)).astype(np.float32)
TARGETS = np.ones((4, 2), np.float32)


def network(first: str, second: str, inputs: str, hidden: str, output: str) -> Function:
    random = np.random.default_rng(0)
    b = Builder("main")
    x = b.input(inputs, "float32<4 x 3>")
    w, v = (b.constant(n, random.normal(size=(3, 2)).astype(np.float32)) for n in (first, second))
    b.save(b.emit(Add(b.emit(MatMul(x, w), hidden), b.emit(MatMul(x, v)))), output)
    return b.function()


def trainer_of(function: Any, parts: int = 1) -> Trainer:
    return Trainer(
        function,
        loss=MeanSquaredError(),
        optimizer=SGD(0.1, momentum=0.9),
        output="y",
        micro_batches=parts,
        backend="interpreter",
        threads=1,
    )


def losses(trainer: Trainer) -> list[float]:
    return [trainer.step(X, TARGETS) for _ in range(3)]


PLAIN = {"first": "w", "second": "v", "inputs": "x", "hidden": "h", "output": "y"}


@pytest.fixture(scope="module")
def expected() -> list[float]:
    """Return the losses of the network whose names are nobody else's."""
    return losses(trainer_of(network(**PLAIN)))


@pytest.mark.parametrize(
    ("name", "place"),
    in_turn(
        [COUNTER, "w.momentum", "w.gradient", "generator", "share"], ["second", "inputs", "hidden"]
    ),
)
def test_a_model_may_use_the_names_of_a_trainer(
    expected: list[float], name: str, place: str, tmp_path: Path
) -> None:
    """The default run has each name in one place, the slow one in all."""
    function = network(**{**PLAIN, place: name})
    trainer = trainer_of(function)
    assert losses(trainer) == expected
    assert trainer.weights.keys() == {"w", name if place == "second" else "v"}
    trainer.save(tmp_path / "checkpoint")
    other = trainer_of(function)
    other.load(tmp_path / "checkpoint")
    assert other.steps == 3
    assert losses(other) == losses(trainer)


@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("name", [COUNTER, "w.momentum", "w.gradient"])
def test_so_may_weights_that_the_loss_does_not_depend_on(name: str, parts: int) -> None:
    def two_outputs(batch: int) -> Function:
        b = Builder("main")
        x = b.input("x", f"float32<{batch} x 3>")
        for weight, output in (("w", "y"), (name, "z")):
            w = b.constant(weight, np.full((3, 2), 0.5, np.float32))
            b.save(b.emit(MatMul(x, w)), output)
        return b.function()

    trainer = trainer_of(two_outputs, parts)
    losses(trainer)
    np.testing.assert_array_equal(trainer.weights[name], np.full((3, 2), 0.5, np.float32))
