"""The costs of devices are printed for each kind, and what two of them and two cores do."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import glow_nb
from experiments.benchmarks import devices
from glow_nb.base.machine_limits import MachineLimits, MemoryLevel
from glow_nb.kernels.target import Target
from tests.unit.runtime.deployables import SCALE, compile_text

pytestmark = pytest.mark.jit


def limits(threads: int, _: Target) -> MachineLimits:
    """Return what so many threads of a machine could do that shares its memory and its clock."""
    rates = {1: (100e9, 20e9), 2: (180e9, 25e9)}[threads]
    return MachineLimits(threads, rates[0], (MemoryLevel("DRAM", 0, rates[1], rates[1]),))


def test_all_tables(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(devices, "measure_limits", limits)
    model = tmp_path / "net.glow"
    model.write_text(SCALE.format(size=50))
    devices.main(["--rounds", "1", "--runs", "3", "--seconds", "0.05", "--model", str(model)])
    lines = capsys.readouterr().out.splitlines()
    first = [line.split("|")[1].strip() for line in lines if line.startswith("| ")]
    assert first == [
        *("call", "local, run", "local, submit", "process, run", "process, submit"),
        *("kind", "local", "process"),
        *("the machine, 1e9/s", "multiply-adds of registers", "bytes read, DRAM"),
    ]
    assert lines[-2:] == [
        "| multiply-adds of registers | 50.0 | 90.0 | 1.80 |",
        "| bytes read, DRAM | 20.0 | 25.0 | 1.25 |",
    ]
    one, two, ratio = map(float, lines[-6].split("|")[2:5])
    assert one > 0
    assert two > 0
    assert ratio == pytest.approx(two / one, abs=0.0051, rel=0.01)  # two digits are printed


def test_the_small_network_is_two_products() -> None:
    network = devices.deploy(devices.small_network(16))
    (x,) = devices.inputs_of(network)
    with devices.opened("local", 1) as (device,):
        device.add("net", network)
        (y,) = device.run("net", [x])
    weights = {c.name: c.array for c in devices.small_network(16).constants}
    expected = np.maximum(x @ weights["first"], 0) @ weights["second"]
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-5)


def test_a_program_is_no_model(tmp_path: Path) -> None:
    glow_nb.save_text(compile_text(SCALE.format(size=5), tmp_path).program, tmp_path / "low.glow")
    with pytest.raises(SystemExit):
        devices.main(["--model", str(tmp_path / "low.glow")])
