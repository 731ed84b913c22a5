"""A cache of networks that is empty."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from glow_nb.network.saved import kept
from glow_nb.network.saved.cache import NetworkCache
from tests.unit.network.saved.models import wait_for_writers


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[NetworkCache]:
    """Yield a cache that is empty; kernels come from that of all tests."""
    cache = NetworkCache(tmp_path / "cache")
    monkeypatch.delenv(kept.NETWORKS_VARIABLE)
    monkeypatch.setattr(kept, "NetworkCache", lambda: cache)
    yield cache
    wait_for_writers()
