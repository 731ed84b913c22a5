"""How far are the results of real networks from the truth with fewer bits, here and in the peers?

The truth is the same network in ``float64``, operator by operator. The root of the mean square of
the errors over some random inputs, over that of the outputs, is printed as the table that
``docs/accuracy.md`` shows: in ``float32``, in ``bfloat16``, and with integers of 8 bits that are
calibrated on other inputs; by OpenVINO in ``bfloat16``, if it is installed::

    python -m experiments.benchmarks.accuracy_of_bits --page docs/accuracy.md
    python -m experiments.benchmarks.accuracy_of_bits --only squeezenet bert_128
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx

import glow_nb
from experiments.benchmarks.printing import peers, processor, replace_part
from experiments.networks.transformers import NETWORKS
from experiments.networks.twins import NAMES, make_twin
from glow_nb.base.types import Array
from glow_nb.quant import calibrate, quantize
from glow_nb.tools.duel.engines import is_installed
from glow_nb.tools.duel.feeds import random_feeds
from glow_nb.tools.duel.reference import truth_of

Run = Callable[[Mapping[str, Array]], Sequence[Array]]
"""Runs a network: the outputs in the order of the model."""

CALIBRATING, TESTED = range(100, 108), range(4)
"""The seeds of the inputs that ranges are calibrated on, and of those that errors are of."""

IMAGES = "squeezenet", "inception_v1", "resnet50", "densenet121", "shufflenet"
SHOWN = (*IMAGES, "bert_128")


def ours(model: onnx.ModelProto, **options: Any) -> Run:
    """Return *model* compiled with *options*."""
    net = glow_nb.compile(model, cache=False, **options)
    return lambda feeds: list(net.run(dict(feeds)).values())


def of_integers(model: onnx.ModelProto) -> Run:
    """Return *model* with integers of 8 bits."""
    ranges = calibrate(model, [random_feeds(model, seed) for seed in CALIBRATING])
    net = glow_nb.compile(quantize(model, ranges, least_gain=0.0), cache=False)
    return lambda feeds: list(net.run(dict(feeds)).values())


def of_openvino(model: onnx.ModelProto) -> Run:
    """Return *model* in OpenVINO, which is to compute in ``bfloat16``."""
    import openvino

    core, hint = openvino.Core(), {"INFERENCE_PRECISION_HINT": "bf16"}
    made = core.compile_model(core.read_model(model.SerializeToString()), "CPU", hint)
    return lambda feeds: [made(feeds)[port] for port in made.outputs]


ENGINES: dict[str, Callable[[onnx.ModelProto], Run]] = {
    "float32": ours,
    "bfloat16": partial(ours, precision="bfloat16"),
    "int8": of_integers,
}
if is_installed("openvino"):
    ENGINES["OpenVINO, bfloat16"] = of_openvino


def errors_of(model: onnx.ModelProto) -> list[float]:
    """Return the error of each engine over all inputs."""
    runs = [make(model) for make in ENGINES.values()]
    squares, size = np.zeros(len(runs)), 0.0
    for seed in TESTED:
        feeds = random_feeds(model, seed)
        truth = list(truth_of(model, feeds).values())
        size += sum(float(np.square(wanted).sum()) for wanted in truth)
        for number, run in enumerate(runs):
            pairs = zip(run(feeds), truth, strict=True)
            squares[number] += sum(np.square(found - wanted).sum() for found, wanted in pairs)
    return [float(error) for error in np.sqrt(squares / size)]


def main() -> None:
    """Print the table, and put it into a page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=(*NAMES, *NETWORKS), default=SHOWN)
    parser.add_argument("--page", type=Path, help="the page whose table is written anew")
    arguments = parser.parse_args()
    lines = ["| network | " + " | ".join(ENGINES) + " |", "|---|" + "---:|" * len(ENGINES)]
    print("\n".join(lines))
    for name in arguments.only:
        model = make_twin(name, 1) if name in NAMES else NETWORKS[name]()
        cells = (f"{error:.1e}" for error in errors_of(model))
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
        print(lines[-1], flush=True)
    if arguments.page:
        made = f"{processor()}, {peers() or 'no peer installed'}:"
        replace_part(arguments.page, "bits", "\n".join([made, "", *lines]))


if __name__ == "__main__":
    main()
