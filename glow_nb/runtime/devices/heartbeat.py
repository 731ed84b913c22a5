"""Signs of life: what a device in another process gives, whatever it computes.

This distinguishes a stopped process from a slow run. The time of a run alone does not: on a
busy machine it may be any number of times what it was before.
"""

from __future__ import annotations

from glow_nb.base.arguments import described
from glow_nb.base.errors import OptionError

HEARTBEATS = 10
"""Signs of life in the time after which a device that gives none is killed.

It is waited for each of them: where the whole machine was asleep, one wait at most has passed."""


def check_heartbeat_timeout(seconds: object) -> None:
    """Raise OptionError unless a device may be silent for *seconds*."""
    least, most = 0.1, 1e6
    if (
        not isinstance(seconds, int | float)
        or isinstance(seconds, bool)
        or not least <= seconds <= most
    ):
        raise OptionError(
            f"heartbeat_timeout={described(seconds)}: give {least:g} to {most:g} seconds"
        )


def silence(seconds: float) -> str:
    """Return the reason for the death of a device that was silent for *seconds*."""
    return f"gave no sign of life for {seconds:g} seconds and was killed"
