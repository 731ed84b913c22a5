"""A server of small models."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import glow_nb
from glow_nb.runtime.hosting.host import HostManager
from tests.unit.runtime.scripted_device import ScriptedDevice
from tests.unit.runtime.small_networks import scaled

pytest.importorskip("starlette", reason="the server needs starlette")
pytest.importorskip("prometheus_client", reason="the server needs prometheus-client")


@dataclass
class Served:
    """A server without a connection."""

    folder: Path
    host: HostManager
    models: Any
    app: Any


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with ``double``, and with ``scaled`` in the versions 2 and 10."""
    models = tmp_path / "models"
    for version in (2, 10):
        place = models / "scaled" / str(version)
        place.mkdir(parents=True)
        glow_nb.save_text(scaled(float(version)), place / "model.glow")
    glow_nb.save_text(scaled(2.0), models / "double.glow")
    return models


@pytest.fixture
def device() -> ScriptedDevice:
    return ScriptedDevice("one", memory_bytes=1 << 26)


@pytest.fixture
def host(device: ScriptedDevice) -> Iterator[HostManager]:
    with HostManager([device]) as host:
        yield host


@pytest.fixture
def served(folder: Path, host: HostManager) -> Served:
    from glow_nb.runtime.serve.application import application
    from glow_nb.runtime.serve.limits import Limits
    from glow_nb.runtime.serve.model_server import ModelServer
    from glow_nb.runtime.serve.repository import ModelRepository

    models = ModelServer(host, ModelRepository([folder]))
    assert models.load_all() == []
    limits = Limits(body_bytes=4096, body_seconds=0.2, request_seconds=20.0, in_flight=4)
    return Served(folder, host, models, application(models, limits))
