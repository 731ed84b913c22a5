"""Docstrings become Markdown: roles are links, blocks are fenced."""

from __future__ import annotations

import pytest

pytest.importorskip("griffe")

from website.docstrings import as_markdown


def test_a_role_is_a_link() -> None:
    text = as_markdown("Takes what :func:`load` takes.", {"load": "glow_nb.load"}.__getitem__)
    link = '<autoref identifier="glow_nb.load" optional><code>load</code></autoref>'
    assert text == f"Takes what {link} takes."


def test_a_block_is_fenced() -> None:
    docstring = "Adds.\n\nExample::\n\n    x = 1\n\n    y = 2\n\nThe end."
    wanted = "Adds.\n\n**Example**\n\n```python\nx = 1\n\ny = 2\n```\n\nThe end."
    assert as_markdown(docstring) == wanted


def test_a_block_may_stand_alone() -> None:
    assert as_markdown("Adds.\n\n::\n\n    a b\n") == "Adds.\n\n```text\na b\n```"


def test_a_block_in_a_section_keeps_its_place() -> None:
    docstring = "Adds.\n\nArgs:\n    x: A number::\n\n        x + 1\n    y: Another."
    wanted = (
        "Adds.\n\nArgs:\n    x: A number:\n\n    ```python\n    x + 1\n    ```\n\n    y: Another."
    )
    assert as_markdown(docstring) == wanted
