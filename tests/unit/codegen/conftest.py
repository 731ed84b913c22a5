"""Processes that compile: kept for the next test, or none."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from glow_nb.codegen import workers
from glow_nb.codegen.workers import keep_workers
from tests.unit.codegen.samples import Owner


@pytest.fixture(scope="module")
def owner() -> Iterator[Owner]:
    """Keep workers from test to test: to start one takes longer than most kernels."""
    owner = Owner()
    keep_workers(owner)
    yield owner
    workers._IDLE.stop()


@pytest.fixture
def no_worker_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Begin as a program does, whatever workers other tests have kept."""
    monkeypatch.setattr(workers, "_IDLE", workers._IdleWorkers())
