"""Which tests cover which module: ``python -m tests.index`` prints a line for each module.

A test file of ``tests/unit`` that has a module's name and place tests it; the others test an aspect
of their folder. Any test that imports a module is named after it. A module that no test imports is
covered by the tests of those modules that import it, and of its folder.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
UNIT = ROOT / "tests" / "unit"


def modules() -> set[str]:
    """Return the names of all modules and folders of the package."""
    return {_name(path) for path in (ROOT / "glow_nb").rglob("*.py")}


def test_files() -> list[Path]:
    """Return all files of tests, in the order of their paths."""
    return sorted((ROOT / "tests").rglob("test_*.py"))


def mirrored(path: Path) -> str:
    """Return the name of the module in whose place the unit test *path* stands."""
    place = path.relative_to(UNIT)
    return ".".join(("glow_nb", *place.parent.parts, place.stem.removeprefix("test_")))


def imported(path: Path, known: set[str]) -> set[str]:
    """Return those of the *known* modules that the file *path* imports, in functions as well."""
    return {name for name in _names(ast.parse(path.read_text(encoding="utf-8"))) if name in known}


@cache
def index() -> dict[str, list[str]]:
    """Return the tests of each module: the one in its place first, then those that import it."""
    known = modules()
    found: dict[str, list[str]] = {name: [] for name in sorted(known)}
    importing: dict[str, list[str]] = defaultdict(list)
    for path in test_files():
        test = path.relative_to(ROOT / "tests").as_posix()
        own = mirrored(path) if path.is_relative_to(UNIT) else ""
        if own in known:
            found[own].append(test)
        for name in imported(path, known) - {own}:
            importing[name].append(test)
    direct = {name: own + importing[name] for name, own in found.items()}
    return {name: tests or _of_importers(name, direct) for name, tests in direct.items()}


def _of_importers(name: str, direct: dict[str, list[str]]) -> list[str]:
    """Return the tests of the nearest modules and folders that need the module *name*."""
    importers = _importers()
    seen, level = {name}, [name]
    while level:
        level = sorted({i for each in level for i in importers[each]} - seen)
        seen |= {*level}
        tests = {test for each in level for test in direct[each]}
        if tests:
            return sorted(tests)
    return []


@cache
def _importers() -> dict[str, set[str]]:
    """Return the modules that import each module, and its folder, which may do so by its name."""
    known = modules()
    found: dict[str, set[str]] = {name: {name.rpartition(".")[0]} & known for name in known}
    for path in (ROOT / "glow_nb").rglob("*.py"):
        for name in imported(path, known):
            found[name].add(_name(path))
    return found


def _name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _names(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


if __name__ == "__main__":
    argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0]).parse_args()
    for module, tests in index().items():
        sys.stdout.write(" ".join((module, *tests)) + "\n")
