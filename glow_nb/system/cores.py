"""The number of cores that the process may use."""

from __future__ import annotations

from glow_nb.system.host_caches import available_processors


def available_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(available_processors())
