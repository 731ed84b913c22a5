"""Waiting for what happens in other threads and processes."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


def wait_until(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def has_ended(number: int) -> bool:
    """Return whether there is no process *number*, or nothing but its status."""
    try:
        status = Path(f"/proc/{number}/stat").read_text(encoding="ascii")
    except OSError:
        return True
    return status.rpartition(")")[2].split()[0] == "Z"


def worker_of(device: Any) -> int:
    """Return the number of the device's process."""
    number: int = device._engine._child.process.pid
    return number
