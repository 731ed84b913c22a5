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

from glow_nb.demo import __main__ as demo
from glow_nb.demo.handwriting import MODEL
from tests.unit.commands.samples import without_progress

DEMO = (sys.executable, "-m", "glow_nb.demo")
OPTIONS = ("--rounds", "1", "--threads", "2", "--output")


@pytest.mark.jit
@pytest.mark.parametrize("has_peer", [True, False], ids=["beside ONNX Runtime", "alone"])
def test_demo_says_what_it_promises(
    has_peer: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "is_installed", lambda engine: has_peer or engine == "glow_nb")
    result = CliRunner().invoke(demo.main, [*OPTIONS, str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert without_progress(result.stderr) == ""
    check_promises(result.stdout, tmp_path)
    assert ("ONNX Runtime is not installed" in result.stdout) == (not has_peer)
    peer = re.search(r"^ONNX Runtime +\d+ us +[\d.]+ [um]s +[\d.]+ MiB$", result.stdout, re.M)
    assert (peer is not None) == has_peer


def check_promises(text: str, output: Path) -> None:
    """Check what the demonstration printed and drew."""
    assert "\x1b" not in text
    assert max(map(len, text.split("what it costs")[0].splitlines()[6:18])) <= 80
    found = re.search(r"difference from NumPy: (\S+) of the largest score", text)
    assert found is not None
    assert float(found[1]) <= 2e-5
    compiles = re.findall(
        r"^compile +[\d.]+ s for (\d+) digits? .* (\d) threads?: (.*)$", text, re.M
    )
    assert [told[:2] for told in compiles] == [("1", "1"), ("360", "2"), ("360", "2")]
    assert compiles[2][2].endswith("all of them from the cache")
    assert re.search("^read +357 of 360 digits correctly; wrong: 2 read as 1, ", text, re.M)
    assert re.search(r"^glow_nb +\d+ us +[\d.]+ [um]s +[\d.]+ MiB$", text, re.M)
    assert re.search(r"^plan .* arena [\d.]+ MiB \(1\.\d+ of its lower bound", text, re.M)
    ElementTree.parse(output / "digits_read.svg")
    assert (output / "digits.onnx").read_bytes() == MODEL.read_bytes()
    assert np.load(output / "digits.npy").shape == (360, 8, 8, 1)


def test_help() -> None:
    result = subprocess.run([*DEMO, "--help"], capture_output=True, text=True, check=True)
    assert "--output FOLDER" in result.stdout
