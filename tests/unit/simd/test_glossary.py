"""The glossary explains what generated source calls."""

from __future__ import annotations

import pytest

from glow_nb.simd.glossary import glossary, meaning
from glow_nb.simd.namespace import NAMESPACE

pytestmark = pytest.mark.jit

EVERYTHING = " ".join(f"{name}(" for name in NAMESPACE)


def test_functions_of_several_arguments_are_explained_by_name() -> None:
    text = glossary("tile_load(x, 0, 8, 2, 1, 8)")
    assert "# tile_load(p, i, stride, rows, vectors, lanes): row r starts at" in text
    assert "tile_store" not in text


@pytest.mark.parametrize("name", [n for n in NAMESPACE if n.startswith(("tile_", "load", "store"))])
def test_every_function_of_memory_and_tiles_has_a_meaning(name: str) -> None:
    assert meaning(name).startswith(f"``{name}(")


def test_elementwise_functions_are_covered_by_the_introduction() -> None:
    assert glossary("exp(add(x, y))") == glossary("")
    assert "work on each element" in glossary("")


def test_lines_are_comments_of_readable_length() -> None:
    lines = glossary(EVERYTHING).splitlines()
    assert all(line.startswith("# ") and len(line) <= 100 for line in lines)
