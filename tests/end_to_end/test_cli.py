"""The command in a process of its own: pipes, terminals, signals and broken streams."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import glow_nb
from tests.in_turn import marked
from tests.unit.commands.samples import (
    GRAPH,
    call,
    save_array,
    without_progress,
    write_dense,
    write_graph,
)

COMMAND = (sys.executable, "-m", "glow_nb")
INTERPRETER = ("--backend", "interpreter")


def run(*arguments: object, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the command to its end with additional environment *variables*."""
    return subprocess.run(
        [*COMMAND, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, **variables},
    )


@pytest.mark.parametrize("command", marked(("run", "info", "dump"), only=["info"]))
def test_output_is_plain_wherever_it_is_no_terminal(tmp_path: Path, command: str) -> None:
    result = run(command, write_dense(tmp_path), *INTERPRETER, FORCE_COLOR="1", COLUMNS="20")
    assert result.returncode == 0, result.stderr
    assert "\x1b" not in result.stdout
    assert result.stderr == ""


def test_error_goes_to_standard_error_alone(tmp_path: Path) -> None:
    path = tmp_path / "net.glow"
    path.write_text(GRAPH.replace("relu", "rely"))
    result = run("check", path)
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.startswith(f"Error: {path}:4:15: unknown operator 'rely'")


def test_dump_pipes_into_check(tmp_path: Path) -> None:
    dump = call("dump", str(write_dense(tmp_path)), "--level", "llir", *INTERPRETER)
    check = subprocess.run(
        [*COMMAND, "check", "-"], input=dump.stdout, capture_output=True, text=True, check=True
    )
    assert check.stdout.startswith("-: program @")


@pytest.mark.parametrize(
    "command",
    marked(("check", "run", "diff", "dump", "info"), only=["check"]),
)
def test_reader_that_went_away_is_no_error(tmp_path: Path, command: str) -> None:
    options = {"check": (), "diff": (*INTERPRETER, "--pass", "schedule")}.get(command, INTERPRETER)
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as stdout:
        result = subprocess.run(
            [*COMMAND, command, str(write_graph(tmp_path)), *options],
            stdout=stdout,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert (result.returncode, result.stderr) == (1, b"")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.parametrize(
    ("command", "unbuffered", "subject"),
    [
        ("check", "", "standard output: "),
        pytest.param("--help", "", "standard output: ", marks=pytest.mark.slow),
        ("--help", "1", ""),  # no error of the system says which stream it is of
    ],
)
def test_full_disk_is_one_message(
    tmp_path: Path, command: str, unbuffered: str, subject: str
) -> None:
    with open("/dev/full", "w") as full:
        result = subprocess.run(
            [*COMMAND, command, str(write_graph(tmp_path))],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
        )
    assert result.returncode == 1
    assert result.stderr == f"Error: {subject}No space left on device\n"


@pytest.mark.parametrize(
    ("arguments", "stream", "message"),
    [
        ("check -", "<&-", "<stdin>: it is closed; send IR text to it, or name a file"),
        ("check -", ">&-", "standard output: it is closed; send it to /dev/null to see nothing"),
    ],
)
def test_a_closed_stream_is_one_message(arguments: str, stream: str, message: str) -> None:
    command = f"{shlex.join(COMMAND)} {arguments} {stream}"
    result = subprocess.run(
        ["/bin/sh", "-c", command], stderr=subprocess.PIPE, text=True, check=False
    )
    assert (result.returncode, result.stderr) == (1, f"Error: {message}\n")


def test_interrupt_ends_quietly(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [*COMMAND, "run", str(write_graph(tmp_path)), *INTERPRETER, "--repeat", "1000000000"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("model ")
        assert process.stdout.readline().startswith("input ")
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=60)
    finally:
        process.kill()
    assert (process.returncode, stderr) == (130, "Interrupted\n")


def test_interrupt_of_an_import_ends_quietly() -> None:
    code = (
        "import importlib.abc, runpy, sys\n"
        "class Interrupted(importlib.abc.MetaPathFinder):\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        if name == 'click': raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupted())\n"
        "runpy.run_module('glow_nb', run_name='__main__')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, "Interrupted\n")


def test_names_survive_a_narrow_encoding(tmp_path: Path) -> None:
    model = write_dense(tmp_path, name="größe")
    result = run("run", model, *INTERPRETER, PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert result.returncode == 0, result.stderr
    x = save_array(tmp_path / "x.npy", np.ones((1, 3), np.float32))
    result = run("run", model, "--input", x, *INTERPRETER, PYTHONIOENCODING="ascii")
    assert result.returncode == 1
    assert result.stderr.startswith("Error: input 'gr")


def test_help_does_not_load_the_compiler() -> None:
    code = (
        "import sys; from glow_nb.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'numba', 'llvmlite', 'onnx', 'matplotlib'} & set(sys.modules)\n"
        "sys.exit(f'loaded {heavy}' if heavy else 0)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)


@pytest.mark.jit
def test_machine_code_from_the_command_line(tmp_path: Path) -> None:
    model, out = write_dense(tmp_path), tmp_path / "out.npz"
    x = np.array([[1, 2, 3], [-4, 5, -6]], np.float32)
    result = run("run", model, "--input", save_array(tmp_path / "x.npy", x), "--save", out)
    assert result.returncode == 0, result.stderr
    assert without_progress(result.stderr) == ""
    (expected,) = glow_nb.compile(model, backend="interpreter").run(x).values()
    with np.load(out) as archive:
        np.testing.assert_allclose(archive["y"], expected, rtol=1e-5)
    source = call("dump", model, "--level", "source")
    assert "def entry(" in source.stdout
    assert "def kernel(" in source.stdout
