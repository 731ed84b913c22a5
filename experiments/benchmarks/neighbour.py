"""What does a busy neighbour do to us, and to the others?

A user's machine runs other programs, too. A process of its own streams through more memory than the
last-level cache holds, on another core than the engines: it takes its share of that cache and of
the memory's rate. The engines of a duel (see ``experiments.benchmarks.duel``) are asked in turn, in
rounds without and with the neighbour, so that both see the same drift of the clock::

    python -m experiments.benchmarks.neighbour
    python -m experiments.benchmarks.neighbour model.onnx --threads 2 --rounds 12
    python -m experiments.benchmarks.neighbour --data docs/measurements.json

Without models it takes two convolutional networks, a mobile one, and encoders. The last form puts
the table into the measurements. Where the system can tie a process to cores, engines and
neighbour have their own; elsewhere the system decides.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.synchronize import Event
from pathlib import Path

import numpy as np
import onnx

from experiments.arguments import thread_count
from experiments.benchmarks.printing import peers, processor
from experiments.benchmarks.results import record
from experiments.networks import mobile as mobile_networks
from experiments.networks import transformers
from experiments.networks.twins import make_twin
from glow_nb.base.errors import GlowError, OptionError
from glow_nb.kernels.target import Target
from glow_nb.system.host_caches import available_processors, cores_of
from glow_nb.tools.duel.contest import Measurement, Ratios, open_contest, ratios_of
from glow_nb.tools.duel.engines import ENGINES
from glow_nb.tools.duel.feeds import random_feeds

NETWORKS: dict[str, Callable[[], onnx.ModelProto]] = {
    "resnet50": lambda: make_twin("resnet50"),
    "vgg19": lambda: make_twin("vgg19"),
    "mobilenet_v2": mobile_networks.mobilenet_v2,
    "bert_128": transformers.NETWORKS["bert_128"],
    "audio_encoder": transformers.NETWORKS["audio_encoder"],
}
STREAMED_CACHES = 4
"""The neighbour copies so many times as much memory as the last-level cache holds."""

READY_SECONDS = 60.0


@dataclass(frozen=True)
class Row:
    """Ratios of one network, alone on the machine and beside the neighbour."""

    network: str
    alone: Ratios
    beside: Ratios


def cores_for(threads: int) -> tuple[set[int], set[int]]:
    """Return the processors for engines of *threads* threads, and those of the neighbour's core.

    Both sets are empty where the system ties no process to cores.
    """
    if not hasattr(os, "sched_setaffinity"):
        return set(), set()
    cores = sorted(cores_of(available_processors()), key=min)
    if threads >= len(cores):
        raise OptionError(
            f"--threads {threads}: with the neighbour they need {threads + 1} cores, this process "
            f"may use {len(cores)}; use fewer threads"
        )
    usable = set(available_processors())
    return {min(core & usable) for core in cores[:threads]}, set(cores[threads] & usable)


@contextmanager
def tied_to(processors: set[int]) -> Iterator[None]:
    """Run this process, and those it starts, on *processors* alone; on all if there are none."""
    if not processors:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, processors)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextmanager
def neighbour(processors: set[int], size_bytes: int) -> Iterator[None]:
    """Let a process on *processors* copy *size_bytes* of memory again and again meanwhile."""
    context = multiprocessing.get_context("spawn")
    runs = context.Event()
    process = context.Process(target=_stream, args=(processors, size_bytes, runs), daemon=True)
    process.start()
    try:
        if not runs.wait(READY_SECONDS):
            raise GlowError("neighbour: it has copied nothing within a minute; end other programs")
        yield
    finally:
        process.terminate()
        process.join()


def _stream(processors: set[int], size_bytes: int, runs: Event) -> None:
    """Copy one half of *size_bytes* to the other until this process is ended."""
    with tied_to(processors):
        source = np.ones(size_bytes // 2, np.uint8)
        dest = np.empty_like(source)
        while True:
            np.copyto(dest, source)
            runs.set()


def measure(
    path: Path, threads: int, engines: Sequence[str], rounds: int, seconds: float
) -> tuple[dict[str, Measurement], dict[str, Measurement]]:
    """Return what *engines* show on the model at *path*, alone and beside the neighbour."""
    ours, others = cores_for(threads)
    size_bytes = STREAMED_CACHES * Target.host().l3_bytes
    feeds = random_feeds(onnx.load(path, load_external_data=False))
    with tied_to(ours), open_contest(str(path), feeds, threads=threads, engines=engines) as contest:
        alone, beside = contest.new_results(), contest.new_results()
        for _ in range(rounds):
            contest.take_turns(alone, 1, seconds)
            with neighbour(others, size_bytes):
                contest.take_turns(beside, 1, seconds)
    return alone, beside


def report(title: str, alone: dict[str, Measurement], beside: dict[str, Measurement]) -> Row | None:
    """Print the times of each engine and the ratios; return these."""
    print(title)
    for name, quiet in alone.items():
        busy = beside[name]
        if not quiet.times or not busy.times:
            print(f"  {name:12s} left out: {quiet.missing or busy.missing}")
            continue
        print(
            f"  {name:12s} alone: min {quiet.min_seconds * 1e3:9.2f} ms"
            f"   median {quiet.median_seconds * 1e3:9.2f} ms"
            f"   beside a neighbour: min {busy.min_seconds * 1e3:9.2f} ms"
            f"   median {busy.median_seconds * 1e3:9.2f} ms"
        )
    before, now = ratios_of(alone), ratios_of(beside)
    if before is None or now is None:
        return None
    print(
        f"  ratio alone {before.minima:.3f}   of medians {before.medians:.3f}"
        f"   beside a neighbour {now.minima:.3f}   of medians {now.medians:.3f}",
        flush=True,
    )
    return Row(title, before, now)


def table(rows: Sequence[Row], threads: int) -> str:
    """Return *rows* as a table in Markdown with a line about the machine."""
    lines = [
        f"{processor()}, threads {threads}, float32; {peers()}.",
        "",
        "| network | alone | medians | beside a neighbour | medians |",
        "|---|---:|---:|---:|---:|",
    ]
    for row in rows:
        cells = " | ".join(f"{ratio:.2f}" for ratio in (*row.alone, *row.beside))
        lines.append(f"| {row.network} | {cells} |")
    return "\n".join(lines)


def models(given: Sequence[str], only: Sequence[str], folder: Path) -> Iterator[Path]:
    """Yield the *given* models, or the networks *only*, each written into *folder* in its turn."""
    yield from (Path(model).resolve() for model in given)
    for name in only if not given else ():
        path = folder / f"{name}.onnx"
        onnx.save(NETWORKS[name](), path)
        yield path


def main() -> None:
    """Measure every model and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("model", nargs="*", help="ONNX files; without any, the networks of --only")
    parser.add_argument(
        "--only", nargs="+", choices=NETWORKS, default=list(NETWORKS), help="without it, all"
    )
    parser.add_argument("--threads", type=thread_count, default=1, help="of each engine")
    parser.add_argument(
        "--engines", nargs="+", choices=ENGINES, default=ENGINES, help="without it, all"
    )
    parser.add_argument("--rounds", type=int, default=8, help="of each kind")
    parser.add_argument("--seconds", type=float, default=0.5, help="for each engine and round")
    parser.add_argument("--data", type=Path, help="file of measurements")
    options = parser.parse_args()
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        for path in models(options.model, options.only, Path(folder)):
            found = measure(path, options.threads, options.engines, options.rounds, options.seconds)
            row = report(path.stem, *found)
            rows += [] if row is None else [row]
    text = table(rows, options.threads)
    if options.data is None:
        print(text)
    else:
        record(options.data, "neighbour", text.splitlines())


if __name__ == "__main__":
    main()
