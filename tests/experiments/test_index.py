"""The index names every script that is run, by its command."""

from __future__ import annotations

import re
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "experiments"


def test_the_index_has_every_script() -> None:
    index = (FOLDER / "README.md").read_text(encoding="utf-8")
    named = set(re.findall(r"python -m experiments\.(\w+\.\w+)", index))
    scripts = {
        f"{path.parent.name}.{path.stem}"
        for path in FOLDER.glob("*/*.py")
        if "__main__" in path.read_text(encoding="utf-8") and path.parent.name != "networks"
    }
    assert named - {"FOLDER.NAME", "networks.NAME"} == scripts
    networks = {path.name for path in (FOLDER / "networks").glob("*.py")}
    assert networks - {"layers.py", "trainable_layers.py"} == set(
        re.findall(r"`(\w+\.py)`", index)
    ) - {
        "graph_picture.py",
        "timing.py",
        "printing.py",
    }
