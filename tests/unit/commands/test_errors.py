"""How the command ends: messages, exit codes, help."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from glow_nb.base.errors import ModelError
from glow_nb.cli import main
from glow_nb.commands.errors import CleanCommand
from tests.unit.commands.samples import call, fails, write_dense


def end_with(error: BaseException) -> Any:
    def callback() -> None:
        raise error

    return CliRunner().invoke(CleanCommand("test", callback=callback), [])


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ModelError("net.onnx: it is broken"), "Error: net.onnx: it is broken\n"),
        (ModelError("two\nlines"), "Error: two\nlines\n"),
        (ModelError("name 'a\x1b[31m\x07'"), "Error: name 'a\\x1b[31m\\x07'\n"),
        (MemoryError("9 GiB"), "Error: not enough memory: 9 GiB\n"),
        (OSError(28, "No space left on device"), "Error: No space left on device\n"),
        (PermissionError(13, "Permission denied", "x"), "Error: x: Permission denied\n"),
    ],
)
def test_failures_end_with_one_message(error: BaseException, message: str) -> None:
    result = end_with(error)
    assert (result.exit_code, result.stderr, result.stdout) == (1, message, "")


def test_interrupt_has_the_exit_code_of_a_signal() -> None:
    result = end_with(KeyboardInterrupt())
    assert (result.exit_code, result.stderr) == (130, "Interrupted\n")


def test_a_closed_pipe_is_quiet() -> None:
    result = end_with(BrokenPipeError(32, "Broken pipe"))
    assert (result.exit_code, result.stderr, result.stdout) == (1, "", "")


def test_bugs_are_not_hidden() -> None:
    assert isinstance(end_with(ZeroDivisionError()).exception, ZeroDivisionError)


def test_version() -> None:
    assert call("--version").output.startswith("glow-nb, version ")


@pytest.mark.parametrize("command", ["run", "dump", "diff", "bisect", "check", "info"])
def test_help_has_examples_and_fits(command: str) -> None:
    result = call(command, "--help")
    assert result.exit_code == 0
    assert f"\n  glow-nb {command} " in result.output
    assert "\nExamples:\n" in result.output
    assert max(map(len, result.output.splitlines())) <= 80


def test_summaries_are_whole_sentences() -> None:
    context = click.Context(main)
    for name in main.list_commands(context):
        command = main.get_command(context, name)
        assert command is not None
        assert not command.get_short_help_str(limit=66).endswith("...")


@pytest.mark.parametrize(
    "arguments",
    [["frob"], ["run"], ["run", "a", "b"], ["dump", "x", "--level", "asm"], ["run", "--x"]],
)
def test_usage_errors(arguments: list[str]) -> None:
    fails(*arguments, code=2)


@pytest.mark.parametrize(
    "arguments",
    [
        ["LONG"],
        ["info", "LONG"],
        ["run", "m", "--shape", "LONG"],
        ["run", "--LONG"],
        ["run", "m", "n", "LONG"],
    ],
)
def test_no_message_repeats_all_of_a_long_argument(arguments: list[str]) -> None:
    result = call(*(argument.replace("LONG", "a" * 100_000) for argument in arguments))
    assert result.exit_code in (1, 2)
    assert "letters left out" in result.stderr
    assert len(result.stderr) < 700


@pytest.mark.parametrize(
    ("arguments", "role"),
    [
        ("profile m.onnx --json m.onnx", "MODEL"),
        ("profile m.onnx --json a.json --trace ./a.json", "--json"),
        ("dump m.onnx --level source --output m.onnx", "MODEL"),
        ("calibrate m.onnx --samples d.npz --output d.npz", "--samples"),
        ("train m.onnx --data d.npz --loss squares --epochs 1 --output d.glow", "--data"),
        ("partition m.onnx --devices d.yaml --plot d.yaml", "--devices"),
        ("run m.onnx --input x=d.npz --save d.npz", "--input"),
        ("run net.glow --save net.npz", "MODEL"),
    ],
)
def test_no_output_replaces_a_file_that_is_read(
    arguments: str, role: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_dense(tmp_path).rename("m.onnx")
    for name in ("d.npz", "d.yaml"):
        Path(name).write_bytes(b"mine")
    before = Path("m.onnx").read_bytes()
    assert f", the file of {role}; choose another name" in fails(*arguments.split())
    assert Path("m.onnx").read_bytes() == before
    assert Path("d.npz").read_bytes() == Path("d.yaml").read_bytes() == b"mine"


def test_an_output_may_be_called_like_another_option(tmp_path: Path) -> None:
    model, output = write_dense(tmp_path), tmp_path / "source"
    assert call("dump", model, "--level", "source", "--output", output).exit_code == 0
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        assert call("dump", model, "--level", "source", "--output", "source").exit_code == 0
