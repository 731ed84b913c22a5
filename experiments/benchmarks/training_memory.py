"""What does a training step need in memory, and what does it cost to need less?

For each network of the duel, and for the digits: the arena of a step, the least that any placement
can have, and the time of a step, with all activations kept and with cheap ones computed again. The
two trainers make steps in turn; times are minima::

    python -m experiments.benchmarks.training_memory --threads 1
    python -m experiments.benchmarks.training_memory --only digits mlp --data docs/measurements.json
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import onnx
from typing_extensions import override

from experiments.arguments import thread_count
from experiments.benchmarks.results import record
from experiments.benchmarks.timing import times_in_turn
from experiments.networks.training import CASES
from experiments.training.digits import network as digits
from glow_nb.base.types import Array
from glow_nb.hlir.graph import Function
from glow_nb.train import SGD, SoftmaxCrossEntropy, Trainer

MEBIBYTE = 2**20

Data = tuple[Array, Array]


@dataclass(frozen=True)
class Row:
    """What training one network with one setting takes.

    Attributes:
        network: Its name.
        recompute: What the trainer was told.
        arena_bytes: The memory of the activations.
        bound_bytes: The largest sum of activations that live at one time.
        seconds: The shortest step.
    """

    network: str
    recompute: str | None
    arena_bytes: int
    bound_bytes: int
    seconds: float

    @override
    def __str__(self) -> str:
        """Return a line of a table in Markdown."""
        kept = "all kept" if self.recompute is None else "cheap ones recomputed"
        return (
            f"| {self.network} | {kept} | {self.arena_bytes / MEBIBYTE:.2f} | "
            f"{self.arena_bytes / max(1, self.bound_bytes):.3f} | {self.seconds * 1e3:.2f} |"
        )


def networks() -> dict[str, tuple[Callable[[], Function | onnx.ModelProto], Data]]:
    """Return what makes each network, and a batch for it."""
    random = np.random.default_rng(0)
    images = random.random((64, 8, 8, 1)).astype(np.float32)
    found: dict[str, tuple[Callable[[], Function | onnx.ModelProto], Data]] = {
        "digits": (partial(digits, 64), (images, random.integers(0, 10, 64)))
    }
    for name, case in CASES.items():
        found[name] = partial(case.make, case.batch), case.data(1)[0]
    return found


def measure(name: str, threads: int, rounds: int) -> Iterator[Row]:
    """Yield how the network called *name* trains with and without recomputing."""
    make, batch = networks()[name]
    settings: tuple[str | None, ...] = (None, "auto")
    trainers = [
        Trainer(
            make(),
            loss=SoftmaxCrossEntropy(),
            optimizer=SGD(0.01, momentum=0.9),
            threads=threads,
            recompute=recompute,
        )
        for recompute in settings
    ]
    steps = [partial(trainer.step, *batch) for trainer in trainers]
    times = times_in_turn(steps, rounds, unmeasured=1)
    for recompute, trainer, seconds in zip(settings, trainers, times, strict=True):
        memory = trainer.memory(*batch)
        yield Row(name, recompute, memory.arena_bytes, memory.lower_bound_bytes, min(seconds))


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table, and put it into a file of measurements if one is named."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", nargs="+", choices=networks(), default=list(networks()))
    parser.add_argument("--threads", type=thread_count, default=1)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--data", type=Path, help="file of measurements")
    given = parser.parse_args(arguments)
    lines = ["| network | activations | arena in MiB | over its lower bound | step in ms |"]
    lines.append("|---|---|---:|---:|---:|")
    print("\n".join(lines))
    for name in given.only:
        for row in measure(name, given.threads, given.rounds):
            lines.append(str(row))
            print(row, flush=True)
    if given.data is not None:
        record(given.data, "training memory", "\n".join(lines).splitlines())


if __name__ == "__main__":
    main()
