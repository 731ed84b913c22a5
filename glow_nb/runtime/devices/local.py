"""A device that is some cores of this process."""

from __future__ import annotations

from functools import partial

from typing_extensions import override

from glow_nb.codegen.load_native import load
from glow_nb.runtime.deployable import Deployable
from glow_nb.runtime.devices.native import native_of
from glow_nb.runtime.devices.thread_device import Runner, ThreadDevice
from glow_nb.system.state_store import StateStore


class LocalDevice(ThreadDevice):
    """Runs machine code on threads of this process.

    A program has been compiled for so many threads as the device has cores; all of them work on
    one run, and the next one begins when it has ended. State survives runs until its network is
    evicted.
    """

    @override
    def _load(self, network: Deployable) -> Runner:
        loaded = load(native_of(network))
        state = StateStore(loaded.layout.state) if loaded.layout.state else None
        return partial(loaded.run_checked, state=state)
