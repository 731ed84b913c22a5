"""The networks of a trainer: few are kept, and the state outlives them."""

from __future__ import annotations

from typing import Any

import pytest

import glow_nb
from glow_nb.network.request import MAX_VARIANTS
from tests.unit.train.trainers import POINTS, REGIONS, make


def test_the_least_recently_used_is_dropped_and_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    def counted(module: Any, **options: Any) -> Any:
        made.append(module)
        return glow_nb.compile(module, **options)

    monkeypatch.setattr("glow_nb.train.networks.compile", counted)
    trainer = make()
    trainer.step(POINTS[:30], REGIONS[:30])
    for size in range(1, MAX_VARIANTS + 1):
        trainer.predict(POINTS[:size])
    expected = trainer.predict(POINTS[:MAX_VARIANTS])
    assert len(made) == 1 + MAX_VARIANTS
    before = trainer.weights["w1"]
    trainer.step(POINTS[:30], REGIONS[:30])
    assert len(made) == 2 + MAX_VARIANTS
    assert (trainer.weights["w1"] != before).any()
    assert (trainer.predict(POINTS[:MAX_VARIANTS])["y"] != expected["y"]).any()
