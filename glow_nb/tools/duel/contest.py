"""Ask engines in turn, and say what their times and outputs were."""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from glow_nb.base.precision import FULL
from glow_nb.base.types import Array
from glow_nb.tools.duel.engines import (
    NO_OPTIONS,
    OURS,
    OUT_OF_THE_BOX,
    PEERS,
    Arrays,
    is_installed,
)
from glow_nb.tools.duel.entrants import Entrant, entrant_of, entrants_of
from glow_nb.tools.duel.worker import load_outputs, save_inputs

Progress = Callable[[int, int], None]
"""Called with (turns taken, turns in all)."""

LAST_LINES = 3
"""So many lines are kept of what an engine wrote before it stopped."""


@dataclass
class Measurement:
    """The measurements of one engine on one model.

    Attributes:
        first_seconds: Loading or compiling, and the first run.
        times: Wall seconds of each measured run.
        outputs: The arrays of the first run, in the model's order.
        computes: The kind that the engine says it computes in; empty if it was not asked.
        missing: Why there are no times; empty if there are.
    """

    first_seconds: float = 0.0
    times: list[float] = field(default_factory=list)
    outputs: list[Array] = field(default_factory=list)
    computes: str = ""
    missing: str = ""

    @property
    def min_seconds(self) -> float:
        """The shortest of the times."""
        return min(self.times)

    @property
    def median_seconds(self) -> float:
        """The median of the times."""
        return statistics.median(self.times)


class Ratios(NamedTuple):
    """The best peer's time over ours, above 1 where we are faster.

    Attributes:
        minima: Ratios of the shortest times: the speed that the machine can reach.
        medians: Ratios of the median times: the speed that a user sees, with the other work on the
            machine.
    """

    minima: float
    medians: float


def ratios_of(results: Mapping[str, Measurement], precision: str = FULL) -> Ratios | None:
    """Return the ratios of *results*, of all that compute in the same *precision*.

    With "default", all engines are compared with their default settings, whatever their precision.

    Returns:
        None if we or all of these peers did not run.
    """
    ours = results.get(entrant_of(OURS, precision).name, Measurement())
    peers = [result for result in map(results.get, _peers_in(precision)) if result is not None]
    peers = [peer for peer in peers if peer.times and _computes(peer, precision)]
    if not peers or not ours.times:
        return None
    return Ratios(
        min(peer.min_seconds for peer in peers) / ours.min_seconds,
        min(peer.median_seconds for peer in peers) / ours.median_seconds,
    )


def _peers_in(precision: str) -> list[str]:
    """Return the names of the peers that can be asked for *precision*."""
    peers = [entrant_of(engine, precision) for engine in PEERS]
    return [peer.name for peer in peers if precision in (OUT_OF_THE_BOX, peer.precision)]


def _computes(peer: Measurement, precision: str) -> bool:
    """Return whether *peer* did as it was asked: some processors lack the instructions for it."""
    return precision == OUT_OF_THE_BOX or peer.computes in ("", precision)


def duel(
    path: str,
    feeds: Arrays,
    *,
    threads: int,
    engines: Sequence[str],
    precisions: Sequence[str] = (FULL,),
    rounds: int,
    seconds: float,
    progress: Progress | None = None,
    options: Mapping[str, Any] = NO_OPTIONS,
) -> dict[str, Measurement]:
    """Run the ONNX model at *path* on *feeds* in each engine, for *rounds* turns of *seconds*.

    Each engine takes part once for each of the *precisions* that it has, see :func:`entrants_of`,
    by whose names the results are found. glow_nb compiles the model with these *options*, plain
    data, after its process has run the files of Python ``imported``. An engine that is not
    installed, refuses the model or stops has a result that says so.

    Raises:
        OptionError: There is no such precision.
    """
    with open_contest(
        path, feeds, threads=threads, engines=engines, precisions=precisions, options=options
    ) as contest:
        results = contest.new_results()
        contest.take_turns(results, rounds, seconds, progress)
    return results


@contextlib.contextmanager
def open_contest(
    path: str,
    feeds: Arrays,
    *,
    threads: int,
    engines: Sequence[str],
    precisions: Sequence[str] = (FULL,),
    options: Mapping[str, Any] = NO_OPTIONS,
) -> Iterator[Contest]:
    """Yield *engines* that have loaded the ONNX model at *path* and run it once on *feeds*."""
    entrants = entrants_of(engines, precisions)
    with tempfile.TemporaryDirectory() as place, contextlib.ExitStack() as stack:
        folder = Path(place)
        save_inputs(folder, feeds)
        workers: dict[str, _Worker] = {}
        first = {entrant: Measurement() for entrant in entrants}
        for name, result in first.items():
            if not is_installed(entrants[name].engine):
                result.missing = "it is not installed"
                continue
            worker = _Worker(entrants[name], path, threads, folder, options)
            stack.callback(worker.close)
            if worker.start(result):
                workers[name] = worker
        yield Contest(first, workers)


class Contest:
    """Engines that wait for their turns, made by :func:`open_contest`."""

    def __init__(self, first: dict[str, Measurement], workers: dict[str, _Worker]) -> None:
        self._first, self._workers = first, workers

    def new_results(self) -> dict[str, Measurement]:
        """Return for each entrant what its first run showed, without times."""
        return {name: replace(result, times=[]) for name, result in self._first.items()}

    def take_turns(
        self,
        results: dict[str, Measurement],
        rounds: int,
        seconds: float,
        progress: Progress | None = None,
    ) -> None:
        """Add to *results* the times of *rounds* in which each entrant has *seconds*."""
        turns = [turn for _ in range(rounds) for turn in self._workers.items()]
        for done, (name, worker) in enumerate(turns, 1):
            worker.measure(results[name], seconds)
            if progress is not None:
                progress(done, len(turns))


class _Worker:
    """One engine in a process of its own."""

    def __init__(
        self, entrant: Entrant, path: str, threads: int, folder: Path, options: Mapping[str, Any]
    ) -> None:
        self._entrant, self._folder = entrant, folder
        self._errors = folder / f"{entrant.name}.txt"
        with self._errors.open("wb") as errors:
            place = [path, str(threads), str(folder), json.dumps(dict(options))]
            arguments = [entrant.engine, entrant.precision, *place]
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "glow_nb.tools.duel.worker", *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env=_environment(threads),
            )

    def start(self, result: Measurement) -> bool:
        """Wait until the model has run once; return whether it has."""
        answer = self._read()
        if answer is None:
            result.missing = self._last_words()
            return False
        result.first_seconds, result.computes = answer
        result.outputs = load_outputs(self._folder, self._entrant.name)
        return True

    def measure(self, result: Measurement, seconds: float) -> None:
        """Let the engine run for *seconds*."""
        if result.missing:
            return
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it is gone: there will be no answer
            self._process.stdin.write(f"{seconds}\n")
            self._process.stdin.flush()
        answer = self._read()
        if answer is None:
            result.missing = self._last_words()
            result.times = []
        else:
            result.times += answer

    def close(self) -> None:
        """End the process."""
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()
        self._process.wait()

    def _read(self) -> Any:
        """Return the next answer; None if the process has ended."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        return json.loads(line) if line else None

    def _last_words(self) -> str:
        """Return the last lines of what the engine wrote before it stopped."""
        status = self._process.wait()
        text = self._errors.read_text(encoding="utf-8", errors="replace").strip()
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        return " ".join(lines[-LAST_LINES:]) or f"it stopped with status {status}"


def _environment(threads: int) -> dict[str, str]:
    """Return the environment of a worker: our modules, and no more threads than it is given."""
    known = [str(Path(entry or ".").absolute()) for entry in sys.path]
    limits = {"OMP_NUM_THREADS": str(threads), "OPENBLAS_NUM_THREADS": str(threads)}
    return os.environ | limits | {"PYTHONPATH": os.pathsep.join(known)}
