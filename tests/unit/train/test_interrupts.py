"""An interrupt at any line of a step, a fit or a save: everything is from before it or after it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from glow_nb.base.types import Array
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Function
from glow_nb.hlir.ops import BatchNormalization, FullyConnected
from glow_nb.hlir.ops.random import Dropout
from glow_nb.train import Adam, Batches, StepDecay, Trainer
from tests.in_turn import marked
from tests.interrupts import interrupted_at_each_line
from tests.unit.train.trainers import POINTS, REGIONS, make

FILES = (
    "glow_nb/train/trainer.py",
    "glow_nb/train/engine.py",
    "glow_nb/train/run_step.py",
    "glow_nb/train/states.py",
    "glow_nb/train/networks.py",
    "glow_nb/train/fitting.py",
    "glow_nb/train/checkpoint.py",
    "glow_nb/system/claims.py",
    "glow_nb/network/files.py",
    "glow_nb/system/replaced_files.py",
    "glow_nb/network/network.py",
    "glow_nb/system/state_store.py",
)

BATCHES = Batches(POINTS[:16], REGIONS[:16], 8)


def network(batch: int) -> Function:
    """A normalization, a dropout and a dense layer: a step changes all kinds of states."""
    b = Builder("small")
    x = b.input("x", f"float32<{batch} x 4>")
    numbers = {name: b.constant(name, np.ones(4, np.float32)) for name in ("scale", "variance")}
    zeros = {name: b.constant(name, np.zeros(4, np.float32)) for name in ("shift", "mean")}
    normal = BatchNormalization(
        x,
        numbers["scale"],
        zeros["shift"],
        zeros["mean"],
        numbers["variance"],
        epsilon=1e-5,
        channel_axis=1,
        momentum=0.9,
    )
    seed = b.constant("seed", np.array([0, 0], np.int64))
    x2 = b.emit(Dropout(b.emit(normal), seed, ratio=0.25))
    w = b.constant("w", np.eye(4, 3, dtype=np.float32))
    b.save(b.emit(FullyConnected(x2, w, b.constant("b", np.zeros(3, np.float32)))), "y")
    return b.function()


def trainer_of(parts: int) -> Trainer:
    return make(
        function=network,
        optimizer=Adam(StepDecay(0.1, every=1, factor=0.9)),
        micro_batches=parts,
    )


def states_of(trainer: Trainer) -> dict[str, Array]:
    return trainer._engine.states.snapshot()[1]


def assert_same(states: dict[str, Array], expected: dict[str, Array]) -> None:
    assert states.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(states[name], array, err_msg=name)


@pytest.mark.parametrize("parts", marked([1, 2], slow=[1]))
def test_a_step_is_made_or_not(parts: int) -> None:
    """Each state after ``n`` steps is that of a trainer that made ``n`` in peace."""
    batch = POINTS[:8], REGIONS[:8]
    trainer, peaceful = trainer_of(parts), trainer_of(parts)
    trainer.step(*batch)
    expected = [states_of(peaceful)]
    for _ in interrupted_at_each_line(lambda: trainer.step(*batch), *FILES):
        while len(expected) <= trainer.steps:
            peaceful.step(*batch)
            expected.append(states_of(peaceful))
        assert_same(states_of(trainer), expected[trainer.steps])
    assert 3 < trainer.steps == len(expected)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # open files
def test_a_fit_loses_nothing_on_the_disk(tmp_path: Path) -> None:
    """Trainer and checkpoint are those after some step; both go on as if nothing had been."""
    begin, path = tmp_path / "begin", tmp_path / "checkpoint"
    trainer, other = trainer_of(1), trainer_of(1)
    trainer.step(POINTS[:8], REGIONS[:8])
    trainer.save(begin)
    expected = {1: states_of(trainer)}
    for batch in [batch for epoch in range(2) for batch in BATCHES.epoch(epoch)]:
        trainer.step(*batch)
        expected[trainer.steps] = states_of(trainer)

    def fit() -> None:
        trainer.fit(BATCHES, 2, checkpoint=path, every=1)

    trainer.load(begin)
    for _ in interrupted_at_each_line(fit, *FILES):
        assert_same(states_of(trainer), expected[trainer.steps])
        if path.exists():
            other.load(path)
            assert_same(states_of(other), expected[other.steps])
            path.unlink()
        trainer.load(begin)
    assert trainer.steps == 5
    assert trainer.epochs == 2
    assert [file.name for file in tmp_path.iterdir()] == ["begin", "checkpoint"]


def test_a_loaded_trainer_is_the_old_one_or_the_new_one(tmp_path: Path) -> None:
    trainer, path = trainer_of(2), tmp_path / "checkpoint"
    batch = POINTS[:8], REGIONS[:8]
    trainer.step(*batch)
    trainer.save(path)
    expected = {1: states_of(trainer)}
    trainer.step(*batch)
    expected[2] = states_of(trainer)
    for _ in interrupted_at_each_line(lambda: trainer.load(path), *FILES):
        assert_same(states_of(trainer), expected[trainer.steps])
        if trainer.steps == 1:
            trainer.step(*batch)
    assert trainer.steps == 1
