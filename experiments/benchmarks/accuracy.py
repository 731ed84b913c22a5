"""How far are the results of real networks from the truth, here and in the peers?

The truth is the same network in ``float64``, operator by operator. The largest difference of each
network, over the largest output, is printed as the table that ``docs/accuracy.md`` shows: as
networks are compiled by default, by direct sums, without the algorithms of Winograd and Strassen,
and by the peers that are installed::

    python -m experiments.benchmarks.accuracy --page docs/accuracy.md
    python -m experiments.benchmarks.accuracy --only squeezenet resnet50 bert_128
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import onnx

import glow_nb
from experiments.benchmarks.printing import TITLES, peers, processor, replace_part, written_page
from experiments.networks.transformers import NETWORKS
from experiments.networks.twins import NAMES, make_twin
from glow_nb.base.distance import largest_distance
from glow_nb.tools.duel.engines import PEERS, is_installed, open_engine
from glow_nb.tools.duel.feeds import random_feeds
from glow_nb.tools.duel.reference import truth_of

OURS = {
    "default": glow_nb.Cpu(),
    "direct sums": glow_nb.Cpu(winograd="off", strassen="off"),
}


def errors_of(model: onnx.ModelProto) -> list[float]:
    """Return the largest differences from the truth, of both of ours and of the installed peers."""
    feeds = random_feeds(model)
    truth = truth_of(model, feeds).values()
    errors = [
        largest_distance(truth, glow_nb.compile(model, backend=backend).run(feeds).values())
        for backend in OURS.values()
    ]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        onnx.save(model, path)
        runs = (open_engine(peer, str(path), 1) for peer in PEERS if is_installed(peer))
        return errors + [largest_distance(truth, run(feeds)) for run in runs]


def main() -> None:
    """Print the table, and put it into a page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    known = (*NAMES, *NETWORKS)
    parser.add_argument("--only", nargs="+", choices=known, default=known)
    parser.add_argument("--batch", type=int, default=1, help="images for each run of a twin")
    parser.add_argument("--page", type=written_page, help="the page whose table is written anew")
    arguments = parser.parse_args()
    titles = [*OURS]
    titles += [TITLES[peer] for peer in PEERS if is_installed(peer)]
    lines = ["| network | " + " | ".join(titles) + " |", "|---|" + "---:|" * len(titles)]
    print("\n".join(lines))
    for name in arguments.only:
        is_twin = name in NAMES
        model = make_twin(name, arguments.batch) if is_twin else NETWORKS[name]()
        cells = (f"{error:.1e}" for error in errors_of(model))
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
        print(lines[-1], flush=True)
    if arguments.page:
        made = f"{processor()}, {peers() or 'no peer installed'}:"
        replace_part(arguments.page, "accuracy", "\n".join([made, "", *lines]))


if __name__ == "__main__":
    main()
