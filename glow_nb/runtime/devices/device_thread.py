"""The thread of a device."""

from __future__ import annotations

import threading
from collections.abc import Callable

from glow_nb.base.errors import DeviceError


def start_thread(name: str, work: Callable[[], None]) -> threading.Thread:
    """Return a new thread that does *work* and does not keep the program alive.

    Raises:
        DeviceError: The system gives no thread.
    """
    thread = threading.Thread(target=work, name=name, daemon=True)
    try:
        thread.start()
    except RuntimeError as error:
        raise DeviceError(
            f"{name}: the system gives no thread for it ({error}); end other threads"
        ) from error
    return thread
