"""The tree of the tests mirrors the package, and the index knows which test covers which module."""

from __future__ import annotations

import pytest

from tests.index import ROOT, UNIT, index, mirrored, modules


def test_every_folder_of_unit_tests_is_a_folder_or_a_module_of_the_package() -> None:
    folders = {path.parent.relative_to(UNIT) for path in UNIT.rglob("test_*.py")}
    places = [ROOT / "glow_nb" / folder for folder in folders]
    assert [p for p in places if not (p.is_dir() or p.with_suffix(".py").is_file())] == []


@pytest.mark.slow
def test_every_module_is_covered() -> None:
    started = ("glow_nb.__main__",)  # which tests run as a command
    assert [name for name, tests in index().items() if not tests and name not in started] == []


@pytest.mark.slow
def test_a_test_in_the_place_of_a_module_comes_first() -> None:
    place = UNIT / "codegen" / "test_pool.py"
    assert mirrored(place) == "glow_nb.codegen.pool" in modules()
    assert index()["glow_nb.codegen.pool"][0] == "unit/codegen/test_pool.py"
