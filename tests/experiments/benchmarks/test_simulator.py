"""What the simulator says is printed beside what process devices do."""

from __future__ import annotations

from pathlib import Path

import pytest

import glow_nb
from experiments.benchmarks import simulator
from glow_nb.runtime import Link
from tests.unit.runtime.networks import chain

pytestmark = pytest.mark.jit


def test_each_way_is_measured_and_simulated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(simulator, "measure_link", lambda: Link(5e9, 1e-4))
    model, page = tmp_path / "chain.glow", tmp_path / "page.md"
    glow_nb.save_text(chain([64] * 3, rows=64), model)
    page.write_text("<!-- simulator begins -->\n<!-- simulator ends -->\n", encoding="utf-8")
    simulator.main([str(model), "--rounds", "1", "--seconds", "0.05", "--page", str(page)])
    rows = [line.split("|")[1:-1] for line in capsys.readouterr().out.splitlines() if "|" in line]
    assert [row[1].strip() for row in rows[2:]] == [
        "one device, ms alone",
        "one device, requests/s",
        "copies, requests/s",
        "parts, ms alone",
        "parts, requests/s",
    ]
    for row in rows[2:]:
        median, best, said, ratio = map(float, row[2:])
        assert min(median, best, said) > 0
        assert ratio == pytest.approx(median / said, rel=0.1, abs=0.01)
    assert page.read_text(encoding="utf-8").count("chain") == len(rows) - 2


@pytest.mark.slow
def test_a_tensor_takes_time_to_a_device() -> None:
    link = simulator.measure_link()
    assert 0 < link.latency_seconds < 0.1
    assert link.bytes_per_second > 1e6


def test_more_devices_than_processors_are_refused() -> None:
    with pytest.raises(SystemExit):
        simulator.main(["--devices", "1000"])
