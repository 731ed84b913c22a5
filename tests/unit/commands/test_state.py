"""What the commands do with functions that have state, and with texts of several functions."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.unit.commands.samples import call, fails

COUNT = """\
state %total : float32<3> = splat 1.0
func @count(%x : float32<3>) -> (%y : float32<3>) {
  %next = add(%total, %x) : float32<3>
  %y_save = save(%total, %y)
  %total_save = save(%next, %total)
}
"""
TWO = f"""{COUNT}
func @read() -> (%y : float32<3>) {{
  %y_save = save(%total, %y)
}}
"""


@pytest.fixture
def count(tmp_path: Path) -> Path:
    path = tmp_path / "count.glow"
    path.write_text(COUNT)
    return path


def test_info_lists_the_states(count: Path) -> None:
    assert "state total" in call("info", count).output
    assert json.loads(call("info", count, "--json").output)["state"] == {"total": "float32<3>"}


def test_check_counts_the_states(count: Path, tmp_path: Path) -> None:
    assert "1 input, 1 output, 1 state" in call("check", count).output
    program = tmp_path / "program.glow"
    call("dump", count, "--level", "llir", "--output", program)
    assert "1 input, 1 output, 1 state, arena" in call("check", program).output


def test_run_begins_with_the_value_in_the_text(count: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.full(3, 5, np.float32))
    for _ in range(2):
        out = tmp_path / "out.npz"
        options = ("--input", tmp_path / "x.npy", "--backend", "interpreter", "--repeat", 3)
        assert call("run", count, *options, "--save", out).exit_code == 0
        np.testing.assert_array_equal(np.load(out)["y"], np.ones(3))


def test_bisect_looks_at_states(count: Path) -> None:
    result = call("bisect", count, "--backend", "interpreter")
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize("command", ["run", "info", "check", "dump", "profile", "bisect"])
def test_one_function_is_wanted(tmp_path: Path, command: str) -> None:
    path = tmp_path / "two.glow"
    path.write_text(TWO)
    assert "['count', 'read']" in fails(command, path)
