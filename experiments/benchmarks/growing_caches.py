"""What does a token of a decoder cost, whose caches stay in the network?

A decoder is compiled twice: its caches are fed, and given back longer in each run, or they stay in
the network. For some lengths of them both run one more token, in turn with ONNX Runtime::

    python -m experiments.networks.open_sizes FOLDER --only small_decoder
    python -m experiments.benchmarks.growing_caches FOLDER/small_decoder.onnx \
        --inputs 'past_*' --outputs 'present_*'

It prints milliseconds of processor time of all threads, the least of some rounds.
"""

from __future__ import annotations

import argparse
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import glow_nb
from experiments.arguments import thread_count
from experiments.benchmarks.timing import Run, seconds_of
from glow_nb.base.types import Array
from glow_nb.tools.duel.engines import open_engine

LONGEST = 1000
ROUNDS = 5


def repeated(run: Run, runs: int) -> None:
    """Run so often."""
    for _ in range(runs):
        run()


def token(net: glow_nb.GrowingNetwork, feeds: dict[str, Array]) -> dict[str, Array]:
    """Run one more token and take it back."""
    length = net.length
    found = net.run(feeds)
    net.truncate(length)
    return found


def compare(path: Path, caches: dict[str, str], pasts: list[int], threads: int, runs: int) -> None:
    """Print the times of a token behind so many *pasts* ones."""
    sizes = {"batch": (1, 4), "past": (0, LONGEST)}
    options: dict[str, Any] = {"sizes": sizes, "hints": {"batch": 1, "past": LONGEST // 4}}
    options |= {"threads": threads, "specialize_after": None}
    fed = glow_nb.compile(path, **options)
    kept = glow_nb.compile(path, caches=caches, **options)
    assert isinstance(kept, glow_nb.GrowingNetwork)
    assert isinstance(fed, glow_nb.DynamicNetwork)
    peer = open_engine("onnxruntime", str(path), threads)
    rng = np.random.default_rng(0)
    print("tokens   fed  kept  ONNX Runtime  largest difference")
    for past in pasts:
        types = {n: t.at({"batch": 1, "past": past}) for n, t in fed.variants[0].inputs.items()}
        feeds = {n: rng.random(t.shape).astype(t.kind.dtype) for n, t in types.items()}
        new = {name: feeds[name] for name in kept.inputs}
        kept.reset()
        kept.fill({name: feeds[name] for name in feeds if name not in new})
        calls: list[Run] = [
            partial(fed.run, feeds),
            partial(token, kept, new),
            partial(peer, feeds),
        ]
        rounds = [partial(repeated, call, runs) for call in calls]
        times = [
            min(times)
            for times in zip(
                *([seconds_of(run, time.process_time) for run in rounds] for _ in range(ROUNDS)),
                strict=True,
            )
        ]
        found, wanted = token(kept, new), fed.run(feeds)
        worst = max(float(np.abs(found[n] - wanted[n]).max()) for n in found)
        shown = "  ".join(f"{1e3 * seconds / runs:.3f}" for seconds in times)
        print(f"{past:6}  {shown}  {worst:.1e}")


def main() -> None:
    """Run the benchmark."""
    assert __doc__
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path, help="a model with the sizes batch and past")
    parser.add_argument("--inputs", default="past_*", help="a pattern for the caches that are fed")
    parser.add_argument("--outputs", default="present_*", help="what they are given back as")
    parser.add_argument("--past", type=int, nargs="+", default=[1, 100, 500, LONGEST])
    parser.add_argument("--threads", type=thread_count, default=1)
    parser.add_argument("--runs", type=int, default=20, help="runs of one round")
    given = parser.parse_args()
    compare(given.model, {given.inputs: given.outputs}, given.past, given.threads, given.runs)


if __name__ == "__main__":
    main()
