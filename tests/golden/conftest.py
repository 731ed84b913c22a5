"""Collects every ``.glow`` file below this folder as one test; see filecheck.py for the format."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from typing_extensions import override

from tests.golden.filecheck import CaseError, MismatchError


def pytest_collect_file(parent: pytest.Collector, file_path: Path) -> pytest.Collector | None:
    """Make a test of each golden case."""
    return GoldenFile.from_parent(parent, path=file_path) if file_path.suffix == ".glow" else None


class GoldenFile(pytest.File):
    """One ``.glow`` file."""

    @override
    def collect(self) -> Iterator[pytest.Item]:
        yield GoldenItem.from_parent(self, name=self.path.stem)


class GoldenItem(pytest.Item):
    """The one test in a ``.glow`` file."""

    @override
    def runtest(self) -> None:
        from tests.golden.run_case import run_case

        try:
            run_case(self.path.read_text(encoding="utf-8"), self.path.name)
        except (MismatchError, CaseError) as error:
            raise pytest.fail.Exception(f"{self.path}: {error}", pytrace=False) from None

    @override
    def reportinfo(self) -> tuple[Path, None, str]:
        return self.path, None, f"golden {self.path.name}"
