"""What the documents show passes ``mypy --strict`` for users.

The Python of the README, of each lesson of the tutorial, and of the pages that tell how to use and
to extend the compiler becomes a script. mypy checks them as it does for somebody who has installed
the package: in an environment that holds glow_nb as a typed package, without our plugin and
settings. ``make types`` does that::

    python -m tests.typed_documents
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import sysconfig
import tempfile
import venv
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
USE = ("running", "inspecting", "training", "deploying", "plans", "porting", "runtime")
"""Pages that tell how to use the compiler, beside those of the folder ``howto``."""
SCRIPTS_OF_THEIR_OWN = ("operators", "porting")
"""Pages each of whose blocks is a script."""

CACHE = ROOT / ".mypy_cache" / "documents"
FLAGS = ("--strict", "--config-file=", "--no-error-summary", "--show-error-codes")


def scripts() -> dict[str, str]:
    """Return the scripts by a name that a module may have."""
    found = {"readme": "\n".join(_blocks(ROOT / "README.md"))}
    for path in sorted((DOCS / "tutorial").glob("*.ipynb")):
        found[f"lesson_{path.stem}"] = "\n".join(_cells(path))
    pages = [*(DOCS / f"{name}.md" for name in USE), *sorted((DOCS / "howto").glob("*.md"))]
    for path in pages:
        blocks = _blocks(path)
        if path.stem in SCRIPTS_OF_THEIR_OWN:
            found |= {f"page_{path.stem}_{number}": block for number, block in enumerate(blocks)}
        elif blocks:
            found[f"page_{path.stem}"] = "\n".join(blocks)
    return found


def _blocks(page: Path) -> list[str]:
    """Return the blocks of Python of *page*."""
    text = page.read_text(encoding="utf-8")
    return re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def _cells(notebook: Path) -> list[str]:
    """Return the cells of code of *notebook*."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


def install(folder: Path) -> Path:
    """Return the interpreter of a new environment in *folder* that has glow_nb installed.

    The package is a link to that of the checkout, and all others are those of this environment; so
    it takes no time, and mypy finds an installed package with ``py.typed``.
    """
    venv.create(folder, with_pip=False)
    python = folder / "bin" / "python"
    asked = "import sysconfig; print(sysconfig.get_path('purelib'))"
    told = subprocess.run([python, "-c", asked], capture_output=True, text=True, check=True)
    packages = Path(told.stdout.strip())
    (packages / "glow_nb").symlink_to(ROOT / "glow_nb", target_is_directory=True)
    (packages / "others.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    return python


def complaints(texts: Mapping[str, str]) -> str:
    """Return what mypy finds in the scripts *texts*, a line each; nothing if they are right."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        python = install(folder / "environment")
        place = folder / "scripts"
        place.mkdir()
        for name, text in texts.items():
            (place / f"{name}.py").write_text(text, encoding="utf-8")
        kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        command = [sys.executable, "-m", "mypy", *FLAGS, f"--python-executable={python}"]
        result = subprocess.run(
            [*command, f"--cache-dir={CACHE}", "."],
            cwd=place,
            env=kept,
            capture_output=True,
            text=True,
            check=False,
        )
    return (result.stdout + result.stderr).strip()


def main() -> None:
    """Check all scripts; print what is wrong."""
    texts = scripts()
    found = complaints(texts)
    if found:
        raise SystemExit(f"{found}\nThe Python of the documents does not pass mypy --strict")
    sys.stdout.write(f"{len(texts)} scripts of the documents pass mypy --strict\n")


if __name__ == "__main__":
    main()
