"""What the documents show passes ``mypy --strict`` for users; ``make types`` checks the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.typed_documents import complaints, install, scripts


def test_readme_and_lessons_and_pages_are_scripts() -> None:
    found = scripts()
    lessons = {name for name in found if name.startswith("lesson_")}
    assert {"readme", "page_training", "page_graph_passes"} <= found.keys() and len(lessons) >= 7
    assert all(name.isidentifier() and "glow_nb" in text for name, text in found.items())


def test_users_have_an_installed_package_with_types(tmp_path: Path) -> None:
    python = install(tmp_path / "environment")
    (package,) = (tmp_path / "environment").glob("lib/*/site-packages/glow_nb")
    assert python.exists() and (package / "py.typed").exists()


@pytest.mark.slow
def test_documents_pass_and_mistakes_do_not() -> None:
    """One run of mypy for both; the mistakes are those that such a run must find."""
    mistakes = {
        "wrong_feed": "import glow_nb\n\nglow_nb.compile('m.onnx').run(3)\n",
        "wrong_name": "from glow_nb.hlir.ops import NoSuchOperator\n",
        "a_function": "import glow_nb\n\nx: int = glow_nb.load('m.onnx')\n",
        "a_program": "import glow_nb\n\nx: int = glow_nb.load_program('m.glow')\n",
    }
    found = complaints(scripts() | mistakes).splitlines()
    assert [line.partition(".py")[0] for line in sorted(found)] == sorted(mistakes)
    assert any('expression has type "Function"' in line for line in found)
    assert any('expression has type "Program"' in line for line in found)
