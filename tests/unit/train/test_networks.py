"""The networks of a trainer: few are kept, and the state outlives them."""

from __future__ import annotations

from typing import Any

import pytest
from typing_extensions import override

import glow_nb
from glow_nb.backends.cpu.backend import CpuBackend
from glow_nb.backends.cpu.executable import CpuExecutable
from glow_nb.backends.cpu.options import CpuOptions
from glow_nb.base.errors import GlowError, PassError
from glow_nb.llir.program import Program
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


class ReachedError(GlowError):
    """Says that all passes have run."""


class PassesAlone(CpuBackend):
    """Compiles nothing."""

    @override
    def compile(self, program: Program, *, threads: int) -> CpuExecutable:
        raise ReachedError("all passes have run")


def test_a_plan_may_name_a_layer_of_the_gradients_alone() -> None:
    options = CpuOptions(plan={"d_fully_connected_1_mat_mul": "not strassen"})
    trainer = make(backend=PassesAlone(options=options))
    with pytest.raises(ReachedError):
        trainer.predict(POINTS[:3])
    with pytest.raises(ReachedError):
        trainer.step(POINTS[:3], REGIONS[:3])


def test_a_plan_that_names_no_layer_of_a_step_is_refused() -> None:
    trainer = make(backend=PassesAlone(options=CpuOptions(plan={"fc3": "direct"})))
    with pytest.raises(PassError, match=r"'fc3' is no convolution or matrix product"):
        trainer.step(POINTS[:3], REGIONS[:3])
