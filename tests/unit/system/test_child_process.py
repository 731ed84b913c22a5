"""A module in a process of its own, and what it says last."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from glow_nb.system.child_process import ChildProcess, can_start


def test_a_module_with_arguments_and_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "import os, sys\nprint(sys.argv[1:], os.environ['WORD'], sys.stdin.read())\n"
    (tmp_path / "said.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    child = ChildProcess("said", "a", "b", environment={"WORD": "hello"})
    assert child.process.wait(30) == 0
    assert child.last_output() == "['a', 'b'] hello"
    child.close()


def test_the_end_of_much_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "much.py").write_text("print('x' * 10_000)\nraise SystemExit('the end')\n")
    monkeypatch.syspath_prepend(tmp_path)
    child = ChildProcess("much")
    assert child.process.wait(30) == 1
    assert child.last_output().endswith("x\nthe end")
    assert len(child.last_output()) < 3000
    child.close()


def test_nowhere_to_keep_what_is_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise OSError

    monkeypatch.setattr("tempfile.TemporaryFile", refuse)
    (tmp_path / "said.py").write_text("print('hello')\n")
    monkeypatch.syspath_prepend(tmp_path)
    child = ChildProcess("said")
    assert child.process.wait(30) == 0
    assert child.last_output() == ""
    child.close()


def test_a_process_that_cannot_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    with pytest.raises(FileNotFoundError):
        ChildProcess("said")


@pytest.mark.parametrize(
    ("executable", "expected"),
    [("/usr/bin/python3.11", True), ("/opt/pypy/bin/pypy3", True), ("/usr/bin/app", False)],
)
def test_an_application_is_not_started_again(
    monkeypatch: pytest.MonkeyPatch, executable: str, expected: bool
) -> None:
    monkeypatch.setattr(sys, "executable", executable)
    assert can_start() is expected
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    assert not can_start()


def test_it_is_in_a_session_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "waits.py").write_text("import sys\nsys.stdin.read()\n")
    monkeypatch.syspath_prepend(tmp_path)
    child = ChildProcess("waits", stdin=subprocess.PIPE)
    assert os.getsid(child.process.pid) == child.process.pid
    child.process.communicate()
    child.close()
