"""A cache of networks that is empty."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path

import pytest

from glow_nb.base.extensions import EXTENDING_MODULES
from glow_nb.network.saved import kept, key
from glow_nb.network.saved.cache import NetworkCache
from glow_nb.system.installed import identity_of_package
from tests.unit.network.saved.models import wait_for_writers

unchanged_package = functools.cache(identity_of_package)
"""The identity of a package that no test changes; each network asks for it several times."""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[NetworkCache]:
    """Yield a cache that is empty; kernels come from that of all tests.

    What tests before have added to the compiler is not there in the processes that a test starts.
    """
    cache = NetworkCache(tmp_path / "cache")
    monkeypatch.delenv(kept.NETWORKS_VARIABLE)
    monkeypatch.setattr(kept, "NetworkCache", lambda: cache)
    monkeypatch.setattr(key, "identity_of_package", unchanged_package)
    added = dict(EXTENDING_MODULES)
    EXTENDING_MODULES.clear()
    yield cache
    wait_for_writers()
    EXTENDING_MODULES.update(added)
