"""The input of a change of the schedule, and the actions after it."""

from __future__ import annotations

import math
from concurrent.futures import CancelledError

from glow_nb.base.errors import GlowError
from glow_nb.base.types import Array
from glow_nb.runtime.hosting.executor import Execution, Run
from glow_nb.runtime.hosting.hosted_device import HostedDevice
from glow_nb.runtime.hosting.request import Request

Outcome = list[Array] | GlowError | CancelledError
"""How a run ended: with outputs, with an error, or cancelled."""


class Effects:
    """The actions after a change of the schedule, outside the lock.

    Attributes:
        runs: Runs to give to their devices.
        finished: Executions that have ended, each with the requests to answer.
        failed: Requests to answer with an error.
        dropped: Runs to cancel, since their requests are gone.
        lost: Devices to restart.
        wake: When :meth:`Schedule.expire` is to be called at the latest.
    """

    __slots__ = ("dropped", "failed", "finished", "lost", "runs", "wake")

    def __init__(self) -> None:
        """Have nothing to do."""
        self.wake = math.inf
        self.runs: list[Run] = []
        self.finished: list[tuple[Execution, list[Request]]] = []
        self.failed: list[tuple[Request, GlowError]] = []
        self.dropped: list[Run] = []
        self.lost: list[HostedDevice] = []
