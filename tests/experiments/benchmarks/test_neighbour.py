"""Duels beside a busy process: who runs where, and what is said of it."""

from __future__ import annotations

import multiprocessing
import os
from pathlib import Path

import pytest

from experiments.benchmarks import neighbour as experiment
from experiments.benchmarks.neighbour import (
    Row,
    cores_for,
    measure,
    neighbour,
    report,
    table,
    tied_to,
)
from experiments.benchmarks.printing import replace_part
from glow_nb.base.errors import OptionError
from glow_nb.tools.duel.contest import Measurement, Ratios
from tests.unit.commands.samples import write_dense

ties = pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs affinity")


@pytest.fixture
def two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two cores of two hardware threads, of which one may not be used."""
    cores = {frozenset({0, 2}), frozenset({1, 3})}
    monkeypatch.setattr(os, "sched_setaffinity", lambda *_: None, raising=False)
    monkeypatch.setattr(experiment, "available_processors", lambda: (0, 1, 2))
    monkeypatch.setattr(experiment, "cores_of", lambda processors: cores)


@pytest.mark.usefixtures("two_cores")
def test_the_neighbour_has_a_core_of_its_own() -> None:
    assert cores_for(1) == ({0}, {1})


@pytest.mark.usefixtures("two_cores")
def test_a_machine_without_a_core_to_spare_is_refused() -> None:
    with pytest.raises(OptionError, match=r"--threads 2: .* need 3 cores, this process may use 2"):
        cores_for(2)


def test_systems_without_affinity_decide_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_setaffinity", raising=False)
    assert cores_for(99) == (set(), set())


@ties
def test_a_process_is_tied_for_a_while() -> None:
    before = os.sched_getaffinity(0)
    with tied_to({min(before)}):
        assert os.sched_getaffinity(0) == {min(before)}
    assert os.sched_getaffinity(0) == before
    with tied_to(set()):
        assert os.sched_getaffinity(0) == before


def test_the_neighbour_ends() -> None:
    with neighbour(set(), 1 << 12):
        assert len(multiprocessing.active_children()) == 1
    assert multiprocessing.active_children() == []


def test_both_rounds_are_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(experiment, "cores_for", lambda threads: (set(), set()))
    monkeypatch.setattr(experiment, "STREAMED_CACHES", 0)
    engines = ("onnxruntime", "missing_engine")
    alone, beside = measure(write_dense(tmp_path), 1, engines, rounds=2, seconds=0.0)
    assert [len(found["onnxruntime"].times) for found in (alone, beside)] == [2, 2]
    assert report("dense", alone, beside) is None  # there is no ratio without us
    assert "left out: it is not installed" in capsys.readouterr().out


def test_ratios_are_told_side_by_side(capsys: pytest.CaptureFixture[str]) -> None:
    alone = {"glow_nb": Measurement(times=[1.0]), "openvino": Measurement(times=[2.0, 4.0])}
    beside = {"glow_nb": Measurement(times=[2.0]), "openvino": Measurement(times=[3.0])}
    row = report("net", alone, beside)
    assert row == Row("net", Ratios(2.0, 3.0), Ratios(1.5, 1.5))
    assert "ratio alone 2.000   of medians 3.000" in capsys.readouterr().out
    assert table([row], 1).splitlines()[-1] == "| net | 2.00 | 3.00 | 1.50 | 1.50 |"


def test_a_part_of_a_page_is_replaced(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("a\n<!-- part begins -->\nold\n<!-- part ends -->\nb\n")
    for text in ("new\n", "newer"):
        replace_part(page, "part", text)
    assert page.read_text() == "a\n<!-- part begins -->\nnewer\n<!-- part ends -->\nb\n"
    with pytest.raises(SystemExit, match="other begins"):
        replace_part(page, "other", "text")
