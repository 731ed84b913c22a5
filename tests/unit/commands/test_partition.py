"""``glow-nb partition``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import glow_nb
from glow_nb.cli import main
from glow_nb.runtime.devices.device_file import parse_devices
from tests.unit.runtime.networks import residual

DEVICES = """\
devices:
  - {name: one, kind: interpreter, memory: 40KB}
  - {name: two, kind: interpreter, memory: 40KB}
"""


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    """Return the paths of a model and of a file of devices."""
    model, devices = tmp_path / "model.glow", tmp_path / "devices.yaml"
    glow_nb.save_text(residual(32), model)
    devices.write_text(DEVICES, encoding="utf-8")
    return str(model), str(devices)


def test_parts_and_devices_are_shown(files: tuple[str, str]) -> None:
    model, devices = files
    result = CliRunner().invoke(main, ["partition", model, "--devices", devices])
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert lines[0].strip() == "parts"
    assert any(line.startswith("residual.0") for line in lines)
    assert any(line.startswith("two") for line in lines)
    assert "above the lower bound" in lines[-1]


def test_json_says_the_same(files: tuple[str, str]) -> None:
    model, devices = files
    arguments = ["partition", model, "--devices", devices, "--objective", "memory", "--json"]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    plan = json.loads(result.output)
    assert plan["objective"] == "memory"
    assert plan["value"] == max(device["memory_used_bytes"] for device in plan["devices"])
    assert {part["device"] for part in plan["parts"]} == {"one", "two"}
    assert all(part["nodes"] for part in plan["parts"])


@pytest.mark.jit  # the limits of the machine are measured by compiled kernels
def test_times_are_measured(files: tuple[str, str]) -> None:
    model, devices = files
    arguments = ["partition", model, "--devices", devices, "--objective", "throughput", "--json"]
    seconds = []
    for extra in ([], ["--measure"]):
        result = CliRunner().invoke(main, [*arguments, *extra])
        assert result.exit_code == 0, result.output
        plan = json.loads(result.output)
        seconds.append(sum(part["seconds"] for part in plan["parts"]))
    estimated, taken = seconds
    assert taken > 0
    assert taken != estimated


def test_nodes_are_assigned(files: tuple[str, str]) -> None:
    model, devices = files
    arguments = ["partition", model, "--devices", devices, "--json", "--assign", "up0=two"]
    plan = json.loads(CliRunner().invoke(main, arguments).output)
    (part,) = [part for part in plan["parts"] if "up0" in part["nodes"]]
    assert part["device"] == "two"


def test_a_picture_is_drawn(files: tuple[str, str], tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    model, devices = files
    picture = tmp_path / "plan.png"
    arguments = ["partition", model, "--devices", devices, "--plot", str(picture)]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("command", ["partition", "serve"])
def test_help_shows_a_file_of_devices(command: str) -> None:
    shown = CliRunner().invoke(main, [command, "--help"]).output
    _, heading, text = shown.partition("  # devices.yaml\n")
    assert heading, shown
    names = [device.name for device in parse_devices(text)]
    assert names == ["fast", "slow0", "slow1"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--assign", "up0"], "give PATTERN=DEVICE"),
        (["--assign", "up0=three"], "there is no device 'three'"),
        (["--assign", "up0=two", "--assign", "up0=one"], "to run on 'two' already"),
        (["--objective", "speed"], "latency"),
    ],
)
def test_wrong_arguments_are_refused(
    files: tuple[str, str], arguments: list[str], message: str
) -> None:
    model, devices = files
    result = CliRunner().invoke(main, ["partition", model, "--devices", devices, *arguments])
    assert result.exit_code in {1, 2}
    assert message in result.output
    assert "Traceback" not in result.output


OPEN = """\
func @twice<n in 1..64 like 4>(%x : float32<n x 3>) -> (%y : float32<n x 3>) {
  %add = add(%x, %x) : float32<n x 3>
  %y_save = save(%add, %y)
}
"""


def test_open_sizes_are_asked_for_by_name(files: tuple[str, str], tmp_path: Path) -> None:
    (tmp_path / "open.glow").write_text(OPEN, encoding="utf-8")
    command = ["partition", str(tmp_path / "open.glow"), "--devices", files[1]]
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 1
    assert "its sizes ['n'] are open, and a plan is made for numbers" in result.output
    assert "--shape n=1" in result.output
    assert CliRunner().invoke(main, [*command, "--shape", "n=4"]).exit_code == 0
