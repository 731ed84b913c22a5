"""How IR text is distinguished from paths, and where its files are; needs no level of IR."""

from __future__ import annotations

import os
import re
from pathlib import Path

SUFFIX = ".glow"
"""What the names of files of IR text end with."""

_BEGINNING = re.compile(r"(\s|//[^\n]*\n)*(func\s*@|(constant|state)\s*%|declare\s*@)")
"""How IR text begins, behind comments."""


def is_ir_text(graph: object) -> bool:
    """Return whether *graph* is IR text itself, and no path of it."""
    return isinstance(graph, str) and _BEGINNING.match(graph) is not None


def archive_of(path: Path) -> Path:
    """Return where the constants of the text at *path* are, beside what a link leads to."""
    return Path(os.path.realpath(path)).with_suffix(".npz")
