"""What the how-to pages say: each page is a script, which runs in a process of its own.

Registries belong to a process. So each script runs alone, with nothing imported but what it imports
itself, and once more with the others, after another network was compiled. The blocks of the page
about operators are scripts of their own. Pages whose scripts take longer are run by
``test_documents.py``.
"""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.in_turn import one_in

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "howto"
LONG = ("bundles", "debugging", "open_sizes", "precision")
PUBLIC = (
    *("glow_nb", "glow_nb.bisection", "glow_nb.extend", "glow_nb.hlir.ops", "glow_nb.observers"),
    *("glow_nb.quant", "glow_nb.runtime", "glow_nb.train", "glow_nb.types"),
)
"""What users import from; the reference has all of it."""

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


def blocks_of(page: Path) -> list[str]:
    """Return the blocks of Python of *page*."""
    text = page.read_text(encoding="utf-8")
    return re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def scripts() -> dict[str, str]:
    """Return the scripts of the pages by name."""
    found: dict[str, str] = {}
    for page in sorted(PAGES.glob("*.md")):
        blocks = blocks_of(page)
        if page.stem == "operators":
            found |= {f"operators {number}": block for number, block in enumerate(blocks)}
        elif page.stem not in LONG:
            found[page.stem] = "\n".join(blocks)
    return found


SCRIPTS = scripts()


def run_script(folder: Path, text: str) -> str:
    """Run *text* in a *folder* that has the model of which pages speak; warnings are errors."""
    (folder / "experiments").mkdir()
    shutil.copy(ROOT / "experiments" / "digits.onnx", folder / "experiments")
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


@pytest.mark.jit
@pytest.mark.parametrize("name", one_in(len(SCRIPTS), SCRIPTS, list(SCRIPTS).index("state")))
def test_it_works_alone(name: str, tmp_path: Path) -> None:
    """The default run has one script alone, and all of them together."""
    run_script(tmp_path, SCRIPTS[name])


@pytest.mark.jit
def test_all_work_after_a_compile(tmp_path: Path) -> None:
    run_script(tmp_path, COMPILE_FIRST + "\n".join(SCRIPTS.values()))


@pytest.mark.parametrize("page", sorted(PAGES.glob("*.md")), ids=lambda page: page.stem)
def test_a_page_imports_what_is_public(page: Path) -> None:
    tree = ast.parse("\n".join(blocks_of(page)))
    modules = [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    ours = {module for module in modules if module and module.split(".")[0] == "glow_nb"}
    assert ours <= {*PUBLIC}
