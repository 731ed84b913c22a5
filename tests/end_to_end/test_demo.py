"""The demonstration, from the digits to the picture of what was read."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from click.testing import CliRunner

import glow_nb
from glow_nb.base.errors import GlowError
from glow_nb.demo import __main__ as demo
from glow_nb.demo.handwriting import MODEL, load_digits
from glow_nb.demo.memory import NOTHING, STATUS, memory_of_process
from tests.unit.commands.samples import without_progress

README = Path(__file__).parents[2] / "README.md"
DEMO = (sys.executable, "-m", "glow_nb.demo")
OPTIONS = ("--rounds", "1", "--threads", "2", "--output")


@pytest.mark.jit
def test_demo_says_what_it_promises(tmp_path: Path) -> None:
    result = CliRunner().invoke(demo.main, [*OPTIONS, str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert without_progress(result.stderr) == ""
    check_promises(result.stdout, tmp_path)


def test_costs_without_onnxruntime_on_a_system_that_tells_no_memory(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo, "is_installed", lambda engine: engine == "glow_nb")
    monkeypatch.setattr(demo, "memory_of_process", lambda *_: None)
    net = glow_nb.compile(MODEL, shapes={"batch": 1}, backend="interpreter", cache=False)
    demo.show_costs(MODEL, MODEL, load_digits(), {1: net}, threads=1, rounds=1)
    text = capsys.readouterr().out
    assert "ONNX Runtime is not installed" in text
    assert re.search(r"^glow_nb +[\d.]+ [um]s +-$", text, re.M)


@pytest.mark.skipif(not STATUS.exists(), reason="the system tells no memory")
def test_a_process_that_fails_is_an_error(tmp_path: Path) -> None:
    absent = tmp_path / "none.npy"
    with pytest.raises(GlowError, match=f"of nothing ended with status 1: .*{absent}"):
        memory_of_process(NOTHING, MODEL, absent, 1)


def shapes_of(lines: str) -> list[str]:
    """Return the *lines* without their numbers, units of time and spaces."""
    return [re.sub(r"[\d.]+ [um]s|[\d.]+|\s", "", line) for line in lines.splitlines() if line]


def check_promises(text: str, output: Path) -> None:
    """Check what the demonstration printed and drew, and that the README shows the same."""
    shown = re.search(r"among other things:\n\n```text\n(.*?)```", README.read_text(), re.S)
    assert shown is not None
    assert set(shapes_of(shown[1])) <= set(shapes_of(text))
    assert "\x1b" not in text
    assert max(map(len, text.split("\ncost\n")[0].splitlines()[6:18])) <= 80
    found = re.search(r"difference from NumPy: (\S+) of the largest score", text)
    assert found is not None
    assert float(found[1]) <= 2e-5
    compiles = re.findall(
        r"^compile +[\d.]+ s for (\d+) digits? .* (\d) threads?: (.*)$", text, re.M
    )
    assert [told[:2] for told in compiles] == [("1", "1"), ("360", "2"), ("360", "2")]
    assert compiles[2][2].endswith("all of them from the cache")
    assert re.search("^read +357 of 360 digits correctly; wrong: 2 read as 1, ", text, re.M)
    for engine in ("glow_nb", "ONNX Runtime"):
        assert re.search(rf"^{engine} +\d+ us +[\d.]+ [um]s +[\d.]+ MiB$", text, re.M)
    assert re.search(r"^plan .* arena [\d.]+ MiB \(1\.\d+ of its lower bound", text, re.M)
    ElementTree.parse(output / "digits_read.svg")
    assert str(output / "report.html") in text
    assert "batch_normalization_2" in (output / "report.html").read_text()
    assert (output / "digits.onnx").read_bytes() == MODEL.read_bytes()
    assert np.load(output / "digits.npy").shape == (360, 8, 8, 1)


def test_help() -> None:
    result = subprocess.run([*DEMO, "--help"], capture_output=True, text=True, check=True)
    assert "--output FOLDER" in result.stdout
