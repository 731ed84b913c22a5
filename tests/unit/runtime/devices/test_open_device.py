"""A description that means nothing is refused, and says what would."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from glow_nb.base.errors import OptionError
from glow_nb.runtime.devices.device_description import DeviceDescription
from glow_nb.runtime.devices.open_device import open_device


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"kind": "proces"}, r"kind 'proces'; did you mean 'process'\?; give one of \['local'"),
        ({"cores": 0}, "cores=0: give a whole number of at least 1"),
        ({"memory_bytes": 1.5}, "memory_bytes=1.5: give a whole number of at least 1"),
        ({"kind": "interpreter"}, "'interpreter' does not run what the backend 'cpu' makes"),
        ({"backend": "interpreter"}, "'local' does not run what the backend 'interpreter' makes"),
        ({"kind": "ray", "backend": "interpreter"}, "give backend 'cpu'"),
        ({"options": {"speed": 1}}, r"unknown option 'speed'; .* of the kind 'local' are \[\]"),
        (
            {"kind": "process", "options": {"processor": 1}},
            "unknown option 'processor'; did you mean 'processors'",
        ),
    ],
)
def test_wrong_descriptions(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=f"device 'here': .*{message}"):
        open_device(DeviceDescription("here", **fields))


def test_ray_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(OptionError, match="ray is not installed; pip install ray"):
        open_device(DeviceDescription("far", kind="ray"))
