"""One engine in a process of its own: answers lines of seconds with lists of times.

Started by :mod:`glow_nb.tools.duel.contest` as ``python -m glow_nb.tools.duel.worker ENGINE
PRECISION MODEL THREADS FOLDER OPTIONS``, with the options in JSON by which glow_nb compiles the
model, and the files of Python, ``imported``, that it runs before. The folder holds the inputs, and
takes the outputs of the first run. The first answer says how long loading and the first run took,
and what the engine says it computes in.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from glow_nb.base.types import Array
from glow_nb.system.python_files import import_file
from glow_nb.tools.duel.engines import OURS, Arrays, Runner, open_engine
from glow_nb.tools.duel.entrants import Entrant

INPUTS = "inputs.npz"


def save_inputs(folder: Path, feeds: Arrays) -> None:
    """Write *feeds* where the workers of *folder* read them."""
    names = np.frombuffer(json.dumps(list(feeds)).encode(), np.uint8)
    np.savez(folder / INPUTS, names, *feeds.values())


def load_inputs(folder: Path) -> dict[str, Array]:
    """Return what :func:`save_inputs` wrote to *folder*."""
    with np.load(folder / INPUTS, allow_pickle=False) as archive:
        names = json.loads(archive["arr_0"].tobytes())
        return {name: archive[f"arr_{index}"] for index, name in enumerate(names, 1)}


def save_outputs(folder: Path, entrant: str, outputs: Sequence[Array]) -> None:
    """Write the *outputs* of *entrant*, a name, to *folder*."""
    np.savez(folder / f"{entrant}.npz", *[np.asarray(output) for output in outputs])


def load_outputs(folder: Path, entrant: str) -> list[Array]:
    """Return what :func:`save_outputs` wrote to *folder*."""
    with np.load(folder / f"{entrant}.npz", allow_pickle=False) as archive:
        return [archive[f"arr_{index}"] for index in range(len(archive.files))]


def read_options(text: str) -> dict[str, Any]:
    """Return the options that are written in *text*, ranges of sizes as tuples."""
    options: dict[str, Any] = json.loads(text)
    ranges = options.get("sizes") or {}
    return options | {"sizes": {name: tuple(ends) for name, ends in ranges.items()} or None}


def serve(entrant: Entrant, path: str, threads: int, folder: Path, options: str) -> None:
    """Answer the parent: one line when ready, then one list of times for each line of seconds."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever an engine prints must not mix with the answers
    feeds = load_inputs(folder)
    given = read_options(options)
    imported = given.pop("imported", ())
    for file in imported if entrant.engine == OURS else ():
        import_file(Path(file))
    started = time.perf_counter()
    run = open_engine(
        entrant.engine,
        path,
        threads,
        given,
        precision=entrant.precision,
        alone=True,
    )
    outputs = run(feeds)
    first_seconds = time.perf_counter() - started
    save_outputs(folder, entrant.name, outputs)
    answers.write(json.dumps([first_seconds, run.computes]) + "\n")
    for line in sys.stdin:
        answers.write(json.dumps(measure(run, feeds, float(line))) + "\n")


def measure(run: Runner, feeds: Arrays, seconds: float) -> list[float]:
    """Return the wall seconds of each run in about *seconds* of running, of at least one."""
    times: list[float] = []
    begin = time.perf_counter()
    while not times or time.perf_counter() - begin < seconds:
        started = time.perf_counter()
        run(feeds)
        times.append(time.perf_counter() - started)
    return times


if __name__ == "__main__":
    engine, precision, model, threads, folder, options = sys.argv[1:]
    serve(Entrant(engine, precision), model, int(threads), Path(folder), options)
