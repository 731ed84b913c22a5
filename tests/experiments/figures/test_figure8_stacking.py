"""The experiment about stacking, at a size that takes no time."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("matplotlib")

from experiments.figures import figure8_stacking


@pytest.mark.jit
def test_the_machine_code_and_the_times_are_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sizes = ["--megabytes", "0.02", "--runs", "2"]
    figure8_stacking.main(["--output", str(tmp_path / "pictures"), *sizes])
    text = capsys.readouterr().out
    assert "copy" in text and "operators" in text
    assert (tmp_path / "pictures" / "figure8.png").stat().st_size > 1000


@pytest.mark.jit
def test_the_inner_loop_adds_and_jumps_back() -> None:
    lines = figure8_stacking.inner_loop(figure8_stacking.add_and_max(1 << 20)).splitlines()
    label = lines[0].rstrip(":")
    assert lines[-1].split()[-1] == label
    assert any("add" in line for line in lines)
