"""Long work beside the event loop, which the end of the program does not wait for."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from functools import partial

from glow_nb.runtime.devices.device_thread import start_thread


async def apart(work: Callable[[], None]) -> None:
    """Do *work* on a thread of its own, and return or raise as it does.

    ``asyncio.to_thread`` would do, but its threads keep the program alive: a model that is being
    compiled when the server is stopped may take minutes.

    Raises:
        DeviceError: The system gives no thread.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()

    def end(error: BaseException | None) -> None:
        if done.done():  # its request is gone
            return
        if error is None:
            done.set_result(None)
        else:
            done.set_exception(error)

    def run() -> None:
        error: BaseException | None = None
        try:
            work()
        except BaseException as raised:  # handed on to the thread that waits
            error = raised
        with contextlib.suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(partial(end, error))

    start_thread("glow_nb loading", run)
    await done
