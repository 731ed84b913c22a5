"""A request to a host: the future of its answer, which ``await`` takes as well."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from typing_extensions import override

from glow_nb.base.types import Array
from glow_nb.runtime.hosting.tracer import TracedRequest
from glow_nb.system.background import AwaitableFuture


class Answering(Protocol):
    """The object that computes the answers of requests.

    Attributes:
        number: The number of this request among those of its network.
        began: When the requests left the queue, by ``time.monotonic``.
    """

    number: int
    began: float


class Request(AwaitableFuture[dict[str, Array]]):
    """The outputs of one run of a network by name, or the error that came in its place.

    A request can be cancelled until it is answered: what it waits for is not begun any more, and
    what runs is not waited for. Callbacks (``add_done_callback``) are called by threads of the host
    and of its devices: they must be short, and must not wait for another request.

    Attributes:
        network: The name of the network.
        arrays: The feeds, in the order of the inputs.
        rows: The number of samples of a batch; 1 where nothing is batched.
        priority: Requests of a higher one go first, whatever their network.
        submitted: When it came, by ``time.monotonic``.
        deadline: When its answer must be there; infinite if that does not matter.
        is_open: Whether it is to be answered yet. The host's lock guards it.
        execution: The execution that computes the answer; None while the request is in the queue.
    """

    def __init__(
        self,
        network: str,
        arrays: Sequence[Array],
        withdraw: Callable[[Request], bool],
        *,
        rows: int = 1,
        priority: int = 0,
        seconds: float | None = None,
    ) -> None:
        """Ask *network* for an answer within *seconds*; *withdraw* takes an open request back."""
        super().__init__()
        self.network, self.arrays, self.rows, self.priority = network, arrays, rows, priority
        self.submitted = time.monotonic()
        self.deadline = math.inf if seconds is None else self.submitted + seconds
        self.is_open = True
        self.execution: Answering | None = None
        self._withdraw = withdraw

    @override
    def cancel(self) -> bool:
        """Give the answer up; return whether it had not come yet."""
        if not self._withdraw(self):
            return self.cancelled()
        super().cancel()
        self.set_running_or_notify_cancel()  # tells those that wait for several futures
        return True

    def answer(self, result: dict[str, Array] | BaseException) -> None:
        """End the request; only who has closed it may do that, once."""
        if isinstance(result, BaseException):
            self.set_exception(result)
        else:
            self.set_result(result)

    def wait(self) -> dict[str, Array]:
        """Return or raise the answer when it is there; an interrupt gives it up."""
        try:
            return self.result()
        except BaseException:
            self.cancel()
            raise

    def traced(self) -> TracedRequest:
        """Return what a trace keeps of it, when it is answered or cancelled now."""
        execution = self.execution
        began, number = (execution.began, execution.number) if execution else (None, None)
        return TracedRequest(
            self.network, self.rows, self.submitted, began, time.monotonic(), number
        )
