"""Notebooks become pages: text, code, and what the code printed or drew."""

from __future__ import annotations

import json

from website.notebooks import to_markdown


def notebook(*cells: object) -> str:
    return json.dumps({"cells": cells, "nbformat": 4, "nbformat_minor": 5, "metadata": {}})


def code(source: str, *outputs: object) -> object:
    return {"cell_type": "code", "source": source, "outputs": outputs, "metadata": {}}


TITLE = {"cell_type": "markdown", "source": ["# First\n", "\n", "A model."], "metadata": {}}


def test_text_and_code() -> None:
    printed = {"output_type": "stream", "name": "stdout", "text": ["\x1b[1m3\x1b[0m\n"]}
    text = to_markdown(notebook(TITLE, code("print(3)", printed), code("")), "first.ipynb")
    assert text == (
        "# First\n\nA model.\n\n"
        '<p><a href="first.ipynb" download>Download this page as a notebook</a></p>\n\n'
        "```python\nprint(3)\n```\n\n```{ .text .output }\n3\n```\n"
    )


def test_results() -> None:
    value = {"output_type": "execute_result", "data": {"text/plain": "'```'"}, "metadata": {}}
    picture = {"output_type": "display_data", "data": {"image/png": "AA\nBB"}, "metadata": {}}
    text = to_markdown(notebook(TITLE, code("f()", value, picture)), "first.ipynb")
    assert "````{ .text .output }\n'```'\n````" in text
    assert 'src="data:image/png;base64,AABB"' in text


def test_errors() -> None:
    failed = {"output_type": "error", "ename": "E", "evalue": "no", "traceback": ["E: no"]}
    assert "```{ .text .output }\nE: no\n```" in to_markdown(
        notebook(TITLE, code("f()", failed)), "first.ipynb"
    )
