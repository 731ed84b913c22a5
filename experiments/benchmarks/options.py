"""How much faster does an option of the cpu backend make networks, and at what price?

Options like Strassen's algorithm are on by default, where they are estimated to be faster. For each
network, a twin or one of :mod:`experiments.networks.transformers`, this prints the times without
the option and with it, measured in turn, the largest difference from the results in ``float64``
over the largest output, and what the constants take::

    python -m experiments.benchmarks.options strassen --only bert_128 audio_encoder --threads 1
"""

from __future__ import annotations

import argparse
import statistics
from functools import partial
from typing import Any

import onnx

import glow_nb
from experiments.arguments import thread_count
from experiments.benchmarks.printing import processor
from experiments.benchmarks.timing import times_in_turn
from experiments.networks.transformers import NETWORKS
from experiments.networks.twins import NAMES, make_twin
from glow_nb.base.distance import largest_distance
from glow_nb.tools.duel.feeds import random_feeds
from glow_nb.tools.duel.reference import truth_of

MEBIBYTE = 2**20
OPTIONS = ("winograd", "strassen")


def report(name: str, model: onnx.ModelProto, option: str, threads: int, rounds: int) -> None:
    """Measure one network without and with *option*, and print a row of the table."""
    feeds = random_feeds(model)
    truth = truth_of(model, feeds).values()
    choices: list[dict[str, Any]] = [{option: choice} for choice in ("off", "auto")]
    backends = (glow_nb.Cpu(**choice) for choice in choices)
    nets = [glow_nb.compile(model, threads=threads, backend=each) for each in backends]
    errors = [largest_distance(truth, net.run(feeds).values()) for net in nets]
    times = times_in_turn([partial(net.run, feeds) for net in nets], rounds)
    cells = [f"{1e3 * min(found):.1f}" for found in times]
    cells += [f"{m(times[0]) / m(times[1]):.3f}" for m in (min, statistics.median)]
    cells += [f"{error:.1e}" for error in errors]
    cells += [f"{net.memory.constant_bytes / MEBIBYTE:.0f}" for net in nets]
    print(f"| {name} | {' | '.join(cells)} |", flush=True)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("option", choices=OPTIONS)
    default = ["bert_128", "encoder_512", "gpt_step"]
    parser.add_argument("--only", nargs="+", choices=(*NAMES, *NETWORKS), default=default)
    parser.add_argument("--threads", type=thread_count, default=1)
    parser.add_argument("--rounds", type=int, default=20)
    given = parser.parse_args()
    if given.rounds < 1:
        parser.error(f"--rounds {given.rounds}: give 1 or more")
    print(f"{processor()}, threads {given.threads}")
    titles = "ms", f"with {given.option}", "ratio", "of medians"
    more = "error", "with it", "MiB of constants", "with it"
    print(f"| network | {' | '.join((*titles, *more))} |\n|---|{'---:|' * 8}")
    for name in given.only:
        model = make_twin(name) if name in NAMES else NETWORKS[name]()
        report(name, model, given.option, given.threads, given.rounds)


if __name__ == "__main__":
    main()
