"""The demonstration, from the photograph to the picture of memory."""

from __future__ import annotations

import re
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner

from glow_nb.demo import __main__ as demo
from glow_nb.demo.network import make_resnet50
from tests.unit.commands.samples import without_progress

DEMO = (sys.executable, "-m", "glow_nb.demo")
FIRST_BLOCK = ((64, 1, 1),)
"""Stages of a network that is the first block of ResNet50, and what stands around all of them."""
OPTIONS = ("--rounds", "1", "--threads", "2", "--output")


@pytest.mark.jit
def test_demo_says_what_it_promises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first block of the network is compiled in this process."""
    monkeypatch.setattr(demo, "make_resnet50", partial(make_resnet50, stages=FIRST_BLOCK))
    result = CliRunner().invoke(demo.main, [*OPTIONS, str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert without_progress(result.stderr) == ""
    check_promises(result.stdout, tmp_path)


@pytest.mark.slow
@pytest.mark.jit
def test_demo_of_the_whole_network(tmp_path: Path) -> None:
    result = subprocess.run(
        [*DEMO, *OPTIONS, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert result.returncode == 0, result.stderr
    assert all(line.startswith("compiling ") for line in result.stderr.splitlines())
    check_promises(result.stdout, tmp_path)


def check_promises(text: str, output: Path) -> None:
    """Check what the demonstration printed and drew."""
    assert "\x1b" not in text
    found = re.search(r"interpreter: (\S+) of the largest logit", text)
    assert found is not None
    assert float(found[1]) <= 2e-5
    first_class = text.index("best classes")
    assert "it is not trained" in text[:first_class]
    compiles = re.findall(r"^compile +[\d.]+ s for (\d) threads?: (.*)$", text, re.MULTILINE)
    assert [threads for threads, _ in compiles] == ["1", "2", "1"]
    assert compiles[2][1].endswith("all of them from the cache")
    assert len(re.findall(r"^glow_nb +\d+ +[\d.]+ +1\.00 x$", text, re.MULTILINE)) == 2
    assert re.search(r"^interpreter \(NumPy\) +any", text, re.MULTILINE)
    assert re.search(r"^memory +arena [\d.]+ MiB, 1\.\d+ of its lower bound", text, re.MULTILINE)
    if "picture     none" not in text:
        assert (output / "memory_map.png").read_bytes().startswith(b"\x89PNG")


def test_help() -> None:
    result = subprocess.run([*DEMO, "--help"], capture_output=True, text=True, check=True)
    assert "--output FOLDER" in result.stdout
