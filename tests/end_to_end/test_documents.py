"""What the documents say can be typed can be typed: every block of code, every command.

The Python of a page runs from top to bottom as one script of its own. The commands of a page run in
the same folder, which holds what the pages speak of: ``out/`` as ``make demo`` leaves it, a
``model.onnx`` and arrays for it. Where running is not the point, it is said here what is checked in
its place (:func:`check_command`).
"""

from __future__ import annotations

import configparser
import contextlib
import io
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock
from warnings import catch_warnings, simplefilter

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from glow_nb.demo.__main__ import copy_files
from glow_nb.demo.handwriting import load_digits
from glow_nb.runtime.devices.device_file import parse_devices
from tests.golden.run_case import run_case
from tests.in_turn import marked
from tests.unit.commands.samples import call

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
SHOWN = ("", "text", "ebnf")
"""Languages of blocks that only show something: a diagram, an output, a grammar that has a test."""

FOREIGN = ("pre-commit",)
"""Programs that are not installed with the tests; the pages offer them, and need them nowhere."""

ENDLESS = ("serve",)
"""Commands of glow-nb that run until they are stopped."""

MEASURING = (["machine"],)
"""Commands of glow-nb that measure this machine; their own tests run them."""

SHORTER = {"bench": ("--rounds", "1", "--seconds", "0")}
"""What is added to commands of glow-nb that measure for seconds."""

pytestmark = pytest.mark.jit


def blocks(page: Path) -> list[tuple[str, str]]:
    """Return language and content of each fenced block of *page*."""
    text = page.read_text(encoding="utf-8")
    return re.findall(r"^```(\w*)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def commands(page: Path) -> list[str]:
    """Return the lines of the shell blocks of *page*, without comments."""
    lines = (
        line.partition("  #")[0].strip()
        for language, content in blocks(page)
        if language == "sh"
        for line in content.splitlines()
    )
    return [line for line in lines if line]


def mentions(page: Path) -> list[str]:
    """Return the commands that stand in the running text and in tables of *page*."""
    prose = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    found = re.findall(r"`([^`\n]+)`", prose)
    programs = r"(?:[A-Z_]+=\S+ )*(?:make|glow-nb|python -m|pip|pre-commit|\.ci/run)\b.*"
    return [code for code in found if re.fullmatch(programs, code) and " " in code]


def pages_with(language: str) -> list[Path]:
    return [page for page in PAGES if any(kind == language for kind, _ in blocks(page))]


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with everything that the pages speak of."""
    folder = tmp_path_factory.mktemp("documents")
    (folder / "out").mkdir()
    (folder / "experiments").mkdir()
    shutil.copy(ROOT / "experiments" / "digits.onnx", folder / "experiments")
    copy_files(load_digits(), folder / "out")
    onnx.save(small_model(), folder / "model.onnx")
    images = np.random.default_rng(0).random((1, 3, 224, 224), np.float32)
    (folder / "devices.yaml").write_text("devices: [{name: one}, {name: two}]", encoding="utf-8")
    np.save(folder / "images.npy", images)
    np.savez(folder / "data.npz", data=images)
    np.savez(folder / "train.npz", data=images, classes=np.zeros((1, 27, 27), np.int64))
    return folder


def small_model() -> onnx.ModelProto:
    """Return a convolution with batch normalization and ReLU, and a pooling, as ``model.onnx``."""
    rng = np.random.default_rng(0)
    statistics = ("scale", "shift", "mean", "variance")
    weights = {"w": rng.normal(size=(2, 3, 7, 7)), **{n: rng.uniform(1, 2, 2) for n in statistics}}
    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["data", "w"], ["a"], name="conv", strides=[8, 8]),
            helper.make_node("BatchNormalization", ["a", *statistics], ["b"], name="bn"),
            helper.make_node("Relu", ["b"], ["c"], name="relu"),
            helper.make_node("MaxPool", ["c"], ["y"], name="pool", kernel_shape=[2, 2]),
        ],
        "net",
        [helper.make_tensor_value_info("data", TensorProto.FLOAT, [1, 3, 224, 224])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 2, 27, 27])],
        [numpy_helper.from_array(v.astype(np.float32), k) for k, v in weights.items()],
    )
    opsets = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def run(arguments: Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a program in *folder*; the package is that of this checkout."""
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        arguments,
        cwd=folder,
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )


def must_run(arguments: Sequence[str], folder: Path) -> str:
    result = run(arguments, folder)
    assert result.returncode == 0, f"{shlex.join(arguments)}\n{result.stdout}\n{result.stderr}"
    return result.stdout


def must_answer(*arguments: str, folder: Path) -> None:
    """Run ``glow-nb`` in *folder* and in this process, which has imported what it needs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        result = call(*arguments)
    assert result.exit_code == 0, f"glow-nb {shlex.join(arguments)}\n{result.output}"


def words_of(command: str) -> list[str]:
    """Return the words of *command* without the variables that are set before it."""
    words = shlex.split(command)
    while "=" in words[0]:
        words.pop(0)
    return words


def check_command(command: str, folder: Path, *, is_mentioned: bool = False) -> None:
    """Run *command*, or check what stands for it.

    ``make`` is asked what it would do. Of ``pip install`` the extras must exist. A command that is
    only mentioned (measurements of minutes are), runs until it is stopped, or measures the
    machine must have a help text that knows its options.
    """
    program, *rest = words_of(command)
    if program in FOREIGN:
        return
    if program == "make":
        must_run(["make", "--dry-run", *rest], ROOT)
    elif program == "pip":
        extras = re.findall(r"\[([\w,]+)\]", command)
        unknown = {name for group in extras for name in group.split(",")} - known_extras()
        assert rest[0] == "install" and not unknown, command
    elif program == ".ci/run":
        assert os.access(ROOT / program, os.X_OK)
    elif program in ("glow-nb", "python"):
        if is_mentioned or rest[0] in ENDLESS or rest in MEASURING:
            words = ["-m", "glow_nb", *rest] if program == "glow-nb" else rest
            check_options(words, folder)
        elif program == "glow-nb":
            must_answer(*rest, *SHORTER.get(rest[0], ()), folder=folder)
        elif rest[:1] == ["-m"]:
            with pytest.MonkeyPatch.context() as patch:
                patch.chdir(folder)
                printed_by(*rest[1:])
        else:
            must_run([sys.executable, *rest], folder)
    else:
        pytest.fail(f"{command}: nobody knows how to check it")


def known_extras() -> set[str]:
    settings = configparser.ConfigParser()
    settings.read(ROOT / "setup.cfg")
    return set(settings["options.extras_require"])


def check_options(words: list[str], folder: Path) -> None:
    """Assert that the help text of a command knows every option among *words*."""
    _, module, *rest = words
    if module in ("pydoc",):
        must_run([sys.executable, *words], folder)
        return
    command = [rest[0]] if module == "glow_nb" and rest and not rest[0].startswith("-") else []
    text = help_text(module, *command)
    options = {word.partition("=")[0] for word in rest if word.startswith("--")}
    unknown = {option for option in options if not re.search(rf"{option}\b", text)}
    assert not unknown, f"{shlex.join(words)}: its help knows nothing of {sorted(unknown)}"


@cache
def help_text(module: str, *command: str) -> str:
    """Return what ``python -m module command --help`` prints."""
    return printed_by(module, *command, "--help")


def printed_by(module: str, *arguments: str) -> str:
    """Return what ``python -m module arguments`` prints, without a process for it.

    What it sets in the environment (pytest loads ``tests/conftest.py`` once more) ends with it.
    """
    command, printed = [module, *arguments], io.StringIO()
    with mock.patch.dict(os.environ), mock.patch.object(sys, "argv", command), catch_warnings():
        # of a module that was imported before it is run
        simplefilter("ignore", RuntimeWarning)
        try:
            with contextlib.redirect_stdout(printed):
                runpy.run_module(module, run_name="__main__", alter_sys=True)
        except SystemExit as ended:
            assert not ended.code, shlex.join(command)
    return printed.getvalue()


def test_a_command_that_is_run_here_leaves_the_environment_as_it_was() -> None:
    before = dict(os.environ)
    assert printed_by("pytest", "--core", "zen5", "--help")
    assert dict(os.environ) == before


def script_of(page: Path) -> str:
    return "\n".join(content for language, content in blocks(page) if language == "python")


LONG = (
    *("deploying.md", "inspecting.md", "plans.md", "running.md", "runtime.md", "training.md"),
    *(
        page.name
        for page in (ROOT / "docs" / "howto").glob("*.md")
        if page.stem not in ("README", "precision")
    ),
)
"""Pages that train, build, draw and measure: their scripts and commands run in the slow run. Those
of most how-to pages run in ``test_howto.py`` as well."""


FRONT = ROOT / "docs" / "README.md"


def runnable(language: str) -> list[Any]:
    """Return the pages with blocks of *language*, long ones for the slow run."""
    pages = pages_with(language)
    return marked(pages, slow=[page for page in pages if page.name in LONG or page == FRONT])


@pytest.mark.parametrize("page", pages_with("python"), ids=name_of)
def test_python_can_be_parsed(page: Path) -> None:
    compile(script_of(page), name_of(page), "exec")


@pytest.mark.parametrize(
    "page",
    [case for case in runnable("python") if case.values[0] != ROOT / "README.md"],
    ids=name_of,
)
def test_python(page: Path, folder: Path) -> None:
    pytest.importorskip("matplotlib")
    script = script_of(page)
    path = folder / f"blocks_of_{page.stem}.py"  # which no import finds instead of a package
    path.write_text(script, encoding="utf-8")
    printed = must_run([sys.executable, "-W", "error", str(path)], folder)
    if page.name == "inspecting.md":
        check_inspecting(printed, [content for kind, content in blocks(page) if kind == "text"])


def check_inspecting(printed: str, shown: Sequence[str]) -> None:
    """Assert that a page shows what was *printed*, as far as it is the same on each processor."""
    first, *_ = shown
    assert printed.startswith(first)
    page = "\n".join(shown)
    for pattern in (
        *(r"^\w+ (?=[\d.]+ KiB \()", r"^ +\d+  .*: (.*)$"),
        *(r"^func .*$", r"^kernel  .*$", r"^def entry.*$", r"^main: \d+ kernels"),
    ):
        found = [{line.strip() for line in re.findall(pattern, t, re.M)} for t in (page, printed)]
        assert found[0] == found[1] != set(), pattern


def test_quick_start_prints_what_the_page_shows(folder: Path) -> None:
    """What it reads is the same on every processor; sizes and kernels are not."""
    found = blocks(ROOT / "README.md")
    script = next(content for language, content in found if language == "python")
    texts = [content for language, content in found if language == "text"]
    shown = next(text for text in texts if text.startswith("digit")).splitlines()
    printed = must_run([sys.executable, "-W", "error", "-c", script], folder).splitlines()
    assert printed[0] == shown[0] == "digit: 3"
    labels = [[line.partition(":")[0] for line in lines] for lines in (printed, shown)]
    assert labels[0] == labels[1]


def test_front_page_is_short() -> None:
    prose = re.sub(r"^```.*?^```", "", (ROOT / "README.md").read_text(), flags=re.M | re.S)
    assert len(prose.split()) <= 600


@pytest.mark.parametrize("page", runnable("sh"), ids=name_of)
def test_commands(page: Path, folder: Path) -> None:
    for command in commands(page):
        check_command(command, folder)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_mentioned_commands(page: Path, folder: Path) -> None:
    for command in mentions(page):
        check_command(command, folder, is_mentioned=True)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_files_that_are_named_exist(page: Path) -> None:
    named = re.findall(r"`((?:glow_nb|experiments|tests)/[\w/.]+)`", page.read_text())
    assert [path for path in named if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("page", pages_with("glow"), ids=name_of)
def test_golden_cases(page: Path) -> None:
    definitions = "\n".join(c for language, c in blocks(page) if language == "python")
    cases = [content for language, content in blocks(page) if language == "glow"]
    run_cases_after(definitions, cases, name_of(page))


def run_cases_after(definitions: str, cases: Sequence[str], name: str) -> None:
    """Run golden *cases* in a process that has the *definitions* of their page."""
    lines = [definitions, f"from {run_case.__module__} import run_case"]
    lines += [f"run_case({case!r}, {name!r})" for case in cases]
    must_run([sys.executable, "-c", "\n".join(lines)], ROOT)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_block_is_run_or_only_shows_something(page: Path) -> None:
    languages = {language for language, _ in blocks(page)}
    assert languages <= {"python", "sh", "glow", "yaml", *SHOWN}


@pytest.mark.parametrize("page", pages_with("yaml"), ids=name_of)
def test_yaml_is_a_list_of_devices(page: Path) -> None:
    for language, content in blocks(page):
        if language == "yaml":
            assert parse_devices(content)
