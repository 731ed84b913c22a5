"""What does a new size cost, and a size that is known only when the network runs?

A model with open sizes is compiled once, and run for random sizes, each of them new to all: here,
in ONNX Runtime, and in OpenVINO where it is installed. For each size the first run counts, which
makes no code in any of them, and the least of some further runs; results are compared::

    python -m experiments.networks.open_sizes FOLDER --only small_encoder
    python -m experiments.benchmarks.open_sizes FOLDER/small_encoder.onnx \
        --sizes batch=1..8 length=1..512 --draws 100 --threads 1

With ``--static N``, N of these sizes are compiled for themselves as well, and run in turn with the
one program: the ratio is what it costs that sizes are not in the code.

All engines are in this process. So ONNX Runtime's threads do not wait in a loop between runs, and
with several threads there is a pause before each turn, after which no thread takes a core.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import onnx

import glow_nb
from experiments.arguments import thread_count
from experiments.benchmarks.printing import TITLES, peers, processor
from experiments.benchmarks.timing import SETTLING_SECONDS, Run, settle, times_in_turn
from glow_nb.base.distance import distance
from glow_nb.base.size_ranges import Range
from glow_nb.base.types import Array
from glow_nb.tools.duel.engines import PEERS, Runner, is_installed, open_engine
from glow_nb.tools.duel.feeds import bind, random_feeds

Draw = dict[str, int]


@dataclass
class Times:
    """Seconds of one engine over all draws: of first runs, and the least of later ones."""

    first: list[float] = field(default_factory=list)
    best: list[float] = field(default_factory=list)


def draws(ranges: Mapping[str, Range], count: int, most: int, seed: int) -> list[Draw]:
    """Return *count* random sets of sizes whose product is at most *most*, each once."""
    rng = np.random.default_rng(seed)
    found: dict[tuple[int, ...], None] = {}
    for _ in range(100 * count):
        sizes = tuple(int(rng.integers(low, high + 1)) for low, high in ranges.values())
        if np.prod(sizes) <= most:
            found[sizes] = None
        if len(found) == count:
            break
    return [dict(zip(ranges, sizes, strict=True)) for sizes in found]


def feeds_for(model: onnx.ModelProto, sizes: Draw) -> dict[str, Array]:
    """Return inputs of *model* for *sizes*."""
    bound = onnx.ModelProto()
    bound.CopyFrom(model)
    bind(bound, sizes, {})
    return random_feeds(bound)


def run_all(
    model: onnx.ModelProto,
    engines: Mapping[str, Runner],
    sets: list[Draw],
    threads: int,
    rounds: int,
) -> tuple[dict[str, Times], float]:
    """Run all *engines* for all *sets*; return their times, and how far results are apart."""
    times = {name: Times() for name in engines}
    apart = 0.0
    for sizes in sets:
        feeds = feeds_for(model, sizes)
        results = []
        for name, run in engines.items():
            settle(threads)
            began = time.perf_counter()
            results.append(run(feeds))
            times[name].first.append(time.perf_counter() - began)
        own, *others = results
        for other in others:
            apart = max(apart, *(distance(a, b) for a, b in zip(own, other, strict=True)))
        runs: list[Run] = [partial(run, feeds) for run in engines.values()]
        for name, found in zip(engines, times_in_turn(runs, rounds, threads=threads), strict=True):
            times[name].best.append(min(found))
    return times, apart


def geometric_mean(ratios: list[float]) -> float:
    """Return the geometric mean of *ratios*."""
    return float(np.exp(np.mean(np.log(ratios))))


def tell(times: Mapping[str, Times], apart: float) -> None:
    """Print what *times* say."""
    own = times["glow_nb"]
    late = statistics.median(a - b for a, b in zip(own.first, own.best, strict=True))
    print(f"first run above the best one, median: {late * 1e3:.2f} ms; results {apart:.1e} apart")
    for name, found in times.items():
        if name == "glow_nb":
            continue
        for what in ("first", "best"):
            pairs = zip(getattr(found, what), getattr(own, what), strict=True)
            ratio = geometric_mean([theirs / ours for theirs, ours in pairs])
            print(f"speed over that of {TITLES[name]}, {what} runs: {ratio:.2f}")


def against_static(
    path: Path, model: onnx.ModelProto, net: Runner, sets: list[Draw], threads: int, rounds: int
) -> None:
    """Print the time of the one program over that of a program for each set of sizes."""
    ratios = []
    for sizes in sets:
        own = glow_nb.compile(path, shapes=sizes, threads=threads, cache=False)
        feeds = feeds_for(model, sizes)
        runs: list[Run] = [partial(net, feeds), partial(own.run, feeds)]
        opened, fixed = map(min, times_in_turn(runs, rounds, unmeasured=1, threads=threads))
        ratios.append(opened / fixed)
        print(f"{sizes}: {opened * 1e3:.2f} ms, compiled for it {fixed * 1e3:.2f} ms")
    print(f"time over that of a program for each size: {geometric_mean(ratios):.3f}")


def _range(text: str) -> tuple[str, Range]:
    name, _, ends = text.partition("=")
    low, _, high = ends.partition("..")
    return name, (int(low), int(high or low))


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--sizes", nargs="+", type=_range, required=True, metavar="NAME=LOW..HIGH")
    parser.add_argument("--hints", nargs="*", type=_range, default=[], metavar="NAME=SIZE")
    parser.add_argument("--draws", type=int, default=100)
    parser.add_argument("--most", type=int, default=4096, help="largest product of the sizes")
    parser.add_argument("--threads", type=thread_count, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--static", type=int, default=0, metavar="N")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    model, ranges = onnx.load(options.model), dict(options.sizes)
    hints = {name: low for name, (low, _) in options.hints}
    began = time.perf_counter()
    net = glow_nb.compile(
        options.model, sizes=ranges, hints=hints, threads=options.threads, cache=False
    )
    took = time.perf_counter() - began
    print(f"{processor()}, {options.threads} threads, {peers()}")
    if options.threads > 1:
        print(f"turns begin {SETTLING_SECONDS * 1e3:.0f} ms after the last run, without spinning")
    print(f"compiled in {took:.1f} s: {net!r}")
    engines: dict[str, Runner] = {"glow_nb": lambda feeds: list(net.run(feeds).values())}
    for peer in filter(is_installed, PEERS):
        engines[peer] = open_engine(peer, str(options.model), options.threads)
    sets = draws(ranges, options.draws, options.most, options.seed)
    tell(*run_all(model, engines, sets, options.threads, options.rounds))
    if isinstance(net, glow_nb.DynamicNetwork):
        print(f"programs: {len(net.variants)}")
    if options.static:
        own = engines["glow_nb"]
        chosen = sets[: options.static]
        against_static(options.model, model, own, chosen, options.threads, options.rounds)


if __name__ == "__main__":
    main()
