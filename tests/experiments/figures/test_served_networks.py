"""Pictures and measurements of the runtime, with few requests."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("matplotlib")

from experiments.figures import figure9_schedule, figure10_assignment


@pytest.mark.jit
def test_the_schedule_is_drawn_from_what_ran(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    figure9_schedule.main(["--output", str(tmp_path), "--requests", "2"])
    assert "2 requests, 10 runs" in capsys.readouterr().out
    assert (tmp_path / "figure9.png").stat().st_size > 1000
    assert json.loads((tmp_path / "figure9.json").read_text())["traceEvents"]


@pytest.mark.jit
def test_the_assignment_is_drawn_from_what_was_loaded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    figure10_assignment.main(["--output", str(tmp_path), "--requests", "1"])
    text = capsys.readouterr().out
    assert "device 1: A.0, B.1" in text
    assert text.count("B.0") == text.count("B.1") == 2
    assert (tmp_path / "figure10.png").stat().st_size > 1000
