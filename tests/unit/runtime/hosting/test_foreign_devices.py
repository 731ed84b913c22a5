"""Devices of users: what they give and raise ends requests, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from typing_extensions import override

from glow_nb.base.errors import GlowError
from glow_nb.base.types import Array
from glow_nb.runtime.hosting.host import HostManager
from tests.unit.runtime.scripted_device import ScriptedDevice
from tests.unit.runtime.small_networks import row, scaled

GIVEN: list[Callable[[list[Array]], Any]] = [
    lambda _: None,
    lambda _: "text",
    lambda _: [],
    lambda outputs: [*outputs, *outputs],
    lambda _: [None],
    lambda outputs: [outputs[0][0]],
    lambda outputs: [outputs[0].astype(np.float64)],
]


class Unprintable:
    """What has no text."""

    @override
    def __repr__(self) -> str:
        raise ValueError("no text")


def test_outputs_without_a_text_are_an_error_that_names_the_device() -> None:
    device = ScriptedDevice("a")
    with HostManager([device]) as host:
        host.add_network("double", scaled(2.0))
        device.gives = lambda _: Unprintable()
        for ask in (host.run, lambda *args: host.submit(*args).result(10)):
            with pytest.raises(
                GlowError, match="^a: a run of network 'double' gave a Unprintable, but must"
            ):
                ask("double", row(1))


@pytest.mark.parametrize("gives", GIVEN)
def test_outputs_that_are_none_are_an_error_that_names_the_device(
    gives: Callable[[list[Array]], Any],
) -> None:
    device = ScriptedDevice("a")
    with HostManager([device]) as host:
        host.add_network("double", scaled(2.0))
        device.gives = gives
        for ask in (host.run, lambda *args: host.submit(*args).result(10)):
            with pytest.raises(
                GlowError, match=r"^a: a run of network 'double' gave .*'y' float32"
            ):
                ask("double", row(1))
        device.gives = lambda outputs: outputs
        assert host.run("double", row(1))["y"][0, 0] == 2.0


def test_a_submission_without_a_future_is_an_error_that_names_the_device(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    device = ScriptedDevice("a")
    with HostManager([device]) as host:
        host.add_network("double", scaled(2.0))
        with monkeypatch.context() as patched:
            patched.setattr(device, "submit", lambda *_: None)
            with pytest.raises(GlowError, match="^a: AttributeError: 'NoneType'"):
                host.submit("double", row(1)).result(10)
        assert host.run("double", row(1))["y"][0, 0] == 2.0
