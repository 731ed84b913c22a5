"""``glow-nb diff``, and the differences it shows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

import glow_nb
from glow_nb.hlir import ops
from glow_nb.hlir.graph import Function
from glow_nb.tools.difference import difference
from tests.unit.commands.samples import call, fails, write_dense, write_graph

TEXT = """\
func @main(%x : float32<2 x 3>) -> (%y : float32<2 x 3>) {
  %a = transpose(%x) {permutation = [1, 0]} : float32<3 x 2>
  %b = relu(%a) : float32<3 x 2>
  %c = transpose(%b) {permutation = [1, 0]} : float32<2 x 3>
  %y_save = save(%c, %y)
}
"""


def write(folder: Path) -> Path:
    path = folder / "net.glow"
    path.write_text(TEXT)
    return path


def test_every_run_is_shown(tmp_path: Path) -> None:
    result = call("diff", write(tmp_path), "--pass", "sink_transposes")
    assert result.exit_code == 0, result.output
    first, *lines = result.output.splitlines()
    assert first.startswith("sink_transposes, run 1 of ")
    assert "-  %c = transpose(%b) {permutation = [1, 0]} : float32<2 x 3>" in lines
    assert any(line.startswith("+  ") for line in lines)
    assert lines[-1].endswith(": nothing changed")
    assert "\x1b" not in result.output


def test_one_run_and_its_counts(tmp_path: Path) -> None:
    result = call("diff", write(tmp_path), "--pass", "sink_transposes", "--run", 1, "--context", 0)
    first, *lines = result.output.splitlines()
    removed = sum(line.startswith("-") for line in lines)
    added = sum(line.startswith("+") for line in lines)
    assert first.endswith(f": {removed} lines removed, {added} added")
    assert {line[0] for line in lines} == {"@", "-", "+"}
    assert "sink_transposes runs " in fails(
        "diff", write(tmp_path), "--pass", "sink_transposes", "--run", 99
    )


def test_exit_codes(tmp_path: Path) -> None:
    model = write(tmp_path)
    unchanged = call("diff", model, "--pass", "raise_gelu", "--exit-code")
    assert unchanged.exit_code == 0
    assert set(map(str.strip, unchanged.output.splitlines())) == {
        f"raise_gelu, run {n} of {len(unchanged.output.splitlines())}: nothing changed"
        for n in range(1, 1 + len(unchanged.output.splitlines()))
    }
    assert call("diff", model, "--pass", "sink_transposes", "--exit-code").exit_code == 3


@pytest.mark.parametrize("step", ["stack_instructions", "allocate", "select_packed_operators"])
def test_passes_of_instructions_and_of_the_backend(tmp_path: Path, step: str) -> None:
    result = call("diff", write_dense(tmp_path), "--pass", step)
    assert result.exit_code == 0, result.output
    assert result.output.startswith(f"{step}, run 1 of 1: ")


def test_wrong_names(tmp_path: Path) -> None:
    model = write_graph(tmp_path)
    message = fails("diff", model, "--pass", "sink_transpose")
    assert "did you mean 'sink_transposes'?" in message
    assert "stack_instructions" in message
    assert "glow-nb dump" in fails("diff", model, "--pass", "generate")
    fails("diff", model, code=2)
    fails("diff", model, "--pass", "lower", "--context", "-1", code=2)
    fails("diff", model, "--pass", "lower", "--run", "0", code=2)
    fails("diff", "missing.onnx", "--pass", "lower")
    program = tmp_path / "program.glow"
    call("dump", model, "--level", "llir", "--output", program)
    assert "no pass is run" in fails("diff", program, "--pass", "lower")


def scaled_by(value: float, elements: int = 64) -> Function:
    b = glow_nb.Builder("main")
    x = b.input("x", f"float32<{elements}>")
    w = b.constant("w", np.arange(elements, dtype=np.float32) + np.float32(value))
    b.save(b.emit(ops.Mul(x, w)), "y")
    return b.function()


def test_numbers_that_changed_are_told_by_a_checksum() -> None:
    found = difference(scaled_by(1), scaled_by(2))
    assert (found.removed, found.added) == (1, 1)
    old, new = (line for line in found.lines if line[0] in "+-")
    assert old[1:].startswith("constant %w : float32<64> = external  // checksum ")
    assert old[1:] != new[1:]
    assert difference(scaled_by(1), scaled_by(1)).lines == ()


def test_small_constants_are_shown_as_they_are() -> None:
    found = difference(scaled_by(1, 2), scaled_by(2, 2))
    assert "-constant %w : float32<2> = dense [1.0, 2.0]" in found.lines


def test_lines_are_coloured_on_a_terminal() -> None:
    console = Console(force_terminal=True, color_system="standard", width=20)
    with console.capture() as capture:
        difference(scaled_by(1), scaled_by(2)).print(console)
    printed = capture.get()
    assert "\x1b[31m-constant %w : float32<64> = external" in printed
    assert "\x1b[32m+constant" in printed


def test_constants_that_come_and_go_are_counted(tmp_path: Path) -> None:
    result = call("diff", write_dense(tmp_path), "--pass", "select_packed_operators")
    assert "constant %" not in result.output
    b = glow_nb.Builder("main")
    b.save(b.emit(ops.Relu(b.input("x", "float32<64>"))), "y")
    plain = b.function()
    found = difference(scaled_by(1), plain)
    assert (found.constants_removed, found.constants_added) == (1, 0)
    assert str(found) == "2 lines removed, 2 added; constants 1 removed, 0 added"
    assert not any(line.startswith("-constant") for line in found.lines)
    shown = difference(scaled_by(1), plain, constants=True)
    assert "-constant %w : float32<64> = external" in shown.lines
