"""The lessons of the tutorial run, and print what they show; warnings are errors."""

from __future__ import annotations

import ast
import json
import os
import shlex
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.end_to_end.test_howto import PUBLIC
from website.lessons import LessonError, check_outputs, save_outputs

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "tutorial"
LESSONS = sorted(path.stem for path in FOLDER.glob("*.ipynb"))
COMPILER = shlex.split(os.environ.get("CC", "cc"))[0]
needs_c = pytest.mark.skipif(
    shutil.which(COMPILER) is None, reason=f"there is no C compiler {COMPILER}"
)
needs_matplotlib = pytest.mark.skipif(
    find_spec("matplotlib") is None, reason="matplotlib is not installed"
)
TOGETHER: dict[tuple[str, ...], pytest.MarkDecorator | tuple[()]] = {
    ("a_pass", "operator", "kernel"): (),
    ("backend",): needs_c,
    ("first_model", "training", "quantization"): needs_matplotlib,
}
"""Lessons that one process can run: to start one takes longer than most lessons."""


def run_lessons(*names: str) -> None:
    notebooks = [str(FOLDER / f"{name}.ipynb") for name in names]
    finished = subprocess.run(
        [sys.executable, "-W", "error", "-m", "website.lessons", "--check", *notebooks],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr


@pytest.mark.jit
@pytest.mark.parametrize(
    "names", [pytest.param(names, marks=marks, id=names[0]) for names, marks in TOGETHER.items()]
)
def test_lessons_print_what_they_show(names: tuple[str, ...]) -> None:
    """If this fails for a good reason: ``python -m website.lessons docs/tutorial/*.ipynb``."""
    run_lessons(*names)


@pytest.mark.jit
@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=marks) for names, marks in TOGETHER.items() for name in names],
)
def test_a_lesson_runs_alone(name: str) -> None:
    run_lessons(name)


def test_every_lesson_is_run() -> None:
    assert sorted(name for names in TOGETHER for name in names) == LESSONS


def code_of(name: str) -> list[str]:
    """Return the cells of code of a lesson."""
    cells = json.loads((FOLDER / f"{name}.ipynb").read_text(encoding="utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


@pytest.mark.parametrize("name", LESSONS)
def test_a_lesson_imports_what_is_public(name: str) -> None:
    tree = ast.parse("\n".join(code_of(name)))
    modules = [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    ours = {module for module in modules if module and module.split(".")[0] == "glow_nb"}
    assert ours <= {*PUBLIC}


@pytest.fixture
def notebook(tmp_path: Path) -> Path:
    """Return a notebook of three cells, not run yet."""
    sources = {"x = 2\nprint(x)": [], "x + 1": [], "import time\ntime.time()": ["varies"]}
    cells = [
        {"cell_type": "code", "source": source, "outputs": [], "metadata": {"tags": tags}}
        for source, tags in sources.items()
    ]
    path = tmp_path / "lesson.ipynb"
    path.write_text(json.dumps({"cells": cells, "nbformat": 4}), encoding="utf-8")
    return path


def test_outputs_are_saved_and_compared(notebook: Path) -> None:
    save_outputs(notebook)
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    printed, shown, _ = (cell["outputs"][0] for cell in cells)
    assert printed == {"name": "stdout", "output_type": "stream", "text": "2\n"}
    assert shown["data"] == {"text/plain": "3"}
    check_outputs(notebook)  # the time is another one
    notebook.write_text(notebook.read_text(encoding="utf-8").replace('"3"', '"4"'))
    with pytest.raises(LessonError, match="--- saved\n4\n--- now\n3"):
        check_outputs(notebook)


def test_an_error_names_its_cell(notebook: Path) -> None:
    notebook.write_text(notebook.read_text(encoding="utf-8").replace("x + 1", "x + y"))
    with pytest.raises(LessonError, match="(?s)lesson, cell 2:.*x \\+ y.*NameError"):
        save_outputs(notebook)


@pytest.mark.parametrize("content", [None, "", "[]", "{}"])
def test_what_is_no_notebook(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "lesson.ipynb"
    if content is not None:
        path.write_text(content)
    with pytest.raises(LessonError, match=f"{path}: no notebook that can be read: "):
        check_outputs(path)


def test_a_cell_that_is_no_python_is_named(notebook: Path) -> None:
    notebook.write_text(notebook.read_text(encoding="utf-8").replace("x + 1", "x +"))
    with pytest.raises(LessonError, match="(?s)lesson, cell 2:.*SyntaxError"):
        save_outputs(notebook)
