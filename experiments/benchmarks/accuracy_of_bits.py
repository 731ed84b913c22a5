"""How large are the errors of real networks in lower precision, here and in the peers?

The truth is the same network in ``float64``, operator by operator. The root of the mean square of
the errors over some random inputs, over that of the outputs, is printed as the table that
``docs/accuracy.md`` shows: in ``float32``, in ``bfloat16``, and with 8-bit integers that are
calibrated on other inputs; by OpenVINO in ``bfloat16``, if it is installed and the processor has
the instructions::

    python -m experiments.benchmarks.accuracy_of_bits --page docs/accuracy.md
    python -m experiments.benchmarks.accuracy_of_bits --only squeezenet bert_128
"""

from __future__ import annotations

import argparse
import math
import tempfile
from collections.abc import Callable
from pathlib import Path

import onnx

import glow_nb
from experiments.benchmarks.printing import (
    TITLES,
    processor,
    replace_part,
    title_of,
    written_page,
)
from experiments.networks.transformers import NETWORKS
from experiments.networks.twins import NAMES, make_twin
from glow_nb.base.distance import relative_error
from glow_nb.base.precision import FULL
from glow_nb.quant import calibrate, quantize
from glow_nb.system.cores import available_cores
from glow_nb.tools.duel.engines import BFLOAT16, OURS, Runner, is_installed, open_engine
from glow_nb.tools.duel.feeds import random_feeds
from glow_nb.tools.duel.reference import truth_of

CALIBRATING, TESTED = range(100, 108), range(4)
"""The seeds of the inputs that ranges are calibrated on, and of those that errors are of."""

IMAGES = "squeezenet", "inception_v1", "resnet50", "densenet121", "shufflenet"
SHOWN = (*IMAGES, "bert_128")

PEER = "openvino"
"""The one that computes models of float32 in bfloat16."""


def of_floats(path: str, engine: str, precision: str) -> Runner | None:
    """Return the model at *path* in *engine*; None if it does not compute in this *precision*."""
    options = {"cache": False}  # of ours
    opened = open_engine(engine, path, available_cores(), options, precision=precision)
    return opened.run if opened.computes == precision else None


def of_integers(path: str) -> Runner:
    """Return the model at *path* with 8-bit integers."""
    model = onnx.load(path)
    ranges = calibrate(model, [random_feeds(model, seed) for seed in CALIBRATING])
    net = glow_nb.compile(quantize(model, ranges, least_gain=0.0), cache=False)
    return lambda feeds: list(net.run(feeds).values())


ENGINES: dict[str, Callable[[str], Runner | None]] = {
    FULL: lambda path: of_floats(path, OURS, FULL),
    BFLOAT16: lambda path: of_floats(path, OURS, BFLOAT16),
    "int8": of_integers,
}
if is_installed(PEER):
    ENGINES[f"{TITLES[PEER]}, {BFLOAT16}"] = lambda path: of_floats(path, PEER, BFLOAT16)


def errors_of(model: onnx.ModelProto) -> list[float]:
    """Return the error of each engine over all inputs; NaN of one that lacks the instructions."""
    fed = [random_feeds(model, seed) for seed in TESTED]
    truth = [output for feeds in fed for output in truth_of(model, feeds).values()]
    errors = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        onnx.save(model, path)
        for make in ENGINES.values():
            run = make(str(path))
            found = None if run is None else [output for feeds in fed for output in run(feeds)]
            errors.append(math.nan if found is None else relative_error(truth, found))
    return errors


def main() -> None:
    """Print the table, and put it into a page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=(*NAMES, *NETWORKS), default=SHOWN)
    parser.add_argument("--page", type=written_page, help="the page whose table is written anew")
    arguments = parser.parse_args()
    lines = ["| network | " + " | ".join(ENGINES) + " |", "|---|" + "---:|" * len(ENGINES)]
    print("\n".join(lines))
    for name in arguments.only:
        model = make_twin(name, 1) if name in NAMES else NETWORKS[name]()
        cells = ("" if math.isnan(error) else f"{error:.1e}" for error in errors_of(model))
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
        print(lines[-1], flush=True)
    if arguments.page:
        peer = title_of(PEER) if is_installed(PEER) else f"{TITLES[PEER]} not installed"
        made = f"{processor()}, {peer}:"
        replace_part(arguments.page, "bits", "\n".join([made, "", *lines]))


if __name__ == "__main__":
    main()
