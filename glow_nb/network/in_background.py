"""Runs in the background: for each network, or for each state, a queue of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from glow_nb.system.background import AwaitableFuture, Background
from glow_nb.system.cores import available_cores

if TYPE_CHECKING:
    from glow_nb.network.views import NetworkViews

T = TypeVar("T")


def submit(network: NetworkViews, run: Callable[[], T]) -> AwaitableFuture[T]:
    """Let *run*, a run of *network*, be done after those that were submitted before.

    Raises:
        GlowError: The system gives no thread.
    """
    state = network.state
    owner = state if state else network  # functions with one state take turns
    at_once = 1 if state or network.takes_turns else max(1, available_cores() // network.threads)
    queue: Background = vars(owner).setdefault("_background_runs", Background(at_once))
    return queue.submit(run)
