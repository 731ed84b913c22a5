"""The texts of docs/architecture.md are those that the compiler makes today."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from experiments.figures.walks import WALKS, parts_of

PAGE = Path(__file__).parents[3] / "docs" / "architecture.md"


@pytest.mark.parametrize("walk", WALKS)
def test_the_page_shows_what_is_made(walk: str) -> None:
    """If this fails: ``python -m experiments.figures.walks WALK --page docs/architecture.md``."""
    page = PAGE.read_text(encoding="utf-8")
    shown = re.findall(rf"<!-- ({walk} \w+) begins -->\n```text\n(.*?)\n```\n", page, re.DOTALL)
    assert dict(shown) == parts_of(walk)
