"""``fit``: epochs, early stop, and going on from a checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from glow_nb.base.errors import GlowError, OptionError
from glow_nb.train import SGD, Adam, Trainer
from tests.in_turn import marked
from tests.unit.train.trainers import POINTS, REGIONS, make


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
