"""Timing engines side by side, asked in turn: a clock that drifts slows all of them alike."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import onnx

from glow_nb.base.types import Array
from glow_nb.tools.duel.engines import is_installed, open_onnxruntime

FEWEST_SECONDS = 0.1
"""In each round an engine runs at least so long, or once."""


@dataclass
class Engine:
    """Something that runs the network.

    Attributes:
        name: For people.
        threads: Threads it may use; None if it decides itself.
        run: Runs the network once.
        best_seconds: The shortest time of a run so far.
    """

    name: str
    threads: int | None
    run: Callable[[], object]
    best_seconds: float = field(default=float("inf"))


def race(engines: Sequence[Engine], rounds: int) -> None:
    """Set ``best_seconds`` of all *engines*, in *rounds* in which each has its turn."""
    for _ in range(rounds):
        for engine in engines:
            deadline = time.perf_counter() + FEWEST_SECONDS
            while True:
                started = time.perf_counter()
                engine.run()
                ended = time.perf_counter()
                engine.best_seconds = min(engine.best_seconds, ended - started)
                if ended >= deadline:
                    break


def onnxruntime_engines(
    model: onnx.ModelProto, feeds: dict[str, Array], thread_counts: Sequence[int]
) -> list[Engine]:
    """Return ONNX Runtime as an engine for each number of threads; none if it is not installed."""
    if not is_installed("onnxruntime"):
        return []
    content = model.SerializeToString()
    return [
        Engine("ONNX Runtime", threads, partial(open_onnxruntime(content, threads), feeds))
        for threads in thread_counts
    ]
