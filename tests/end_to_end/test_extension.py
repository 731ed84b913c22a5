"""What a user adds from outside: the scripts of docs/extending.md, each in a process of its own.

Registries belong to a process. So each script runs alone, with nothing imported but what it imports
itself, and once more with the others, after another network was compiled.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.in_turn import one_in

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "extending.md"
KINDS = [
    "An elementwise operator",
    "The gradient of an operator",
    "A function for formulas",
    "An operator with a kernel of its own",
    "State, and several functions over it",
    "A graph pass",
    "An ablation",
    "A scheduler and an allocator",
    "A backend",
]

COMPILE_FIRST = """
def _compile_something():
    import numpy as np
    import glow_nb
    from glow_nb.hlir.ops import Softmax, Tanh
    builder = glow_nb.Builder()
    x = builder.input("x", "float32<2 x 3>")
    builder.save(builder.emit(Softmax(builder.emit(Tanh(x)), axis=1)), "y")
    for backend in ("cpu", "interpreter"):
        glow_nb.compile(builder.function(), backend=backend).run(np.ones((2, 3), np.float32))

_compile_something()
"""


def scripts() -> dict[str, str]:
    """Return the block of Python below each heading of the page."""
    sections = re.split(r"^## (.*)\n", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    found = {}
    for heading, text in zip(sections[1::2], sections[2::2], strict=True):
        (found[heading],) = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return found


SCRIPTS = scripts()


def run_script(folder: Path, text: str) -> str:
    path = folder / "script.py"
    path.write_text(text, encoding="utf-8")
    finished = subprocess.run(
        [sys.executable, "-W", "error", str(path)],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


def test_there_is_a_script_for_each_kind_of_extension() -> None:
    assert list(SCRIPTS) == KINDS


@pytest.mark.jit
@pytest.mark.parametrize("kind", one_in(4, KINDS))
def test_it_works_alone(kind: str, tmp_path: Path) -> None:
    """The default run has two kinds alone, and all of them together."""
    run_script(tmp_path, SCRIPTS[kind])


@pytest.mark.jit
def test_all_work_after_a_compile(tmp_path: Path) -> None:
    run_script(tmp_path, COMPILE_FIRST + "".join(SCRIPTS.values()))
