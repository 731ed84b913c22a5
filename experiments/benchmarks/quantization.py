"""What do integers cost in accuracy, and what do they save, by schema and method?

The network that reads digits (``experiments/digits.onnx``) is calibrated on the digits that it was
trained on, and asked about the other 360. The table shows the share read rightly, the signal to
noise of the scores, the bytes of the constants, and the time of a run, for floats and for integers;
the picture shows how far each layer is from the floats with the usual options, and what it gains.
The network of ``experiments/training/regression.py`` is trained, calibrated on what it has learnt
from, and asked about all patients, those of each fifth unseen by it: a second table shows the share
of the variance that it explains::

    python -m experiments.benchmarks.quantization --output out
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

import numpy as np

import glow_nb
from experiments.benchmarks.timing import seconds_of
from experiments.networks.trainable_layers import split
from experiments.training.digits import TESTED, accuracy, load_digits
from experiments.training.regression import (
    explained,
    folds,
    load_patients,
    standardized,
    trained,
)
from glow_nb import quant
from glow_nb.base.types import Array
from glow_nb.hlir.graph import Function
from glow_nb.network.network import Network
from glow_nb.quant.methods import MethodName
from glow_nb.quant.schemas import SchemaName

SCHEMAS: tuple[SchemaName, ...] = get_args(SchemaName)
METHODS: tuple[MethodName, ...] = get_args(MethodName)
MODEL = Path(__file__).parents[1] / "digits.onnx"
RUNS = 20


def milliseconds(network: Network, images: Array) -> float:
    """Return the least time of some runs."""
    network.run(images)
    return 1e3 * min(seconds_of(lambda: network.run(images)) for _ in range(RUNS))


def row(name: str, function: Function, images: Array, digits: Array, scores: Array) -> str:
    """Return the line of the table for *function*; *scores* are those of the floats."""
    network = glow_nb.compile(function, threads=1)
    found = network.run(images)["scores"]
    noise = float(np.sum((found - scores) ** 2))
    ratio = 10 * np.log10(float(np.sum(scores**2)) / noise) if noise else np.inf
    size = network.memory.constant_bytes
    share, taken = accuracy(found, digits), milliseconds(network, images)
    return f"{name:40} {share:8.2%} {ratio:6.1f} dB {size:8} bytes {taken:8.3f} ms"


def table(ranges: quant.Ranges, images: Array, digits: Array) -> list[str]:
    """Return the lines for floats and for all schemas, methods and options."""
    function = glow_nb.load(MODEL, shapes={"batch": len(images)})
    scores = glow_nb.compile(function).run(images)["scores"]
    lines = [row("float32", function, images, digits, scores)]
    for schema in SCHEMAS:
        for method in METHODS:
            made = quant.quantize(function, ranges, schema=schema, method=method, least_gain=0)
            lines.append(row(f"{schema}, {method}", made, images, digits, scores))
    made = quant.quantize(function, ranges, per_channel=False, least_gain=0)
    lines.append(row("asymmetric, minmax, one scale a layer", made, images, digits, scores))
    return lines


def foretell(
    function: Function, measured: Array, asked: Array, backend: str = "cpu"
) -> dict[str, Array]:
    """Return what *function* foretells of *asked*, as floats and by each schema and method.

    It is calibrated on what was *measured*.
    """
    ranges = quant.calibrate(function, measured, backend=backend)
    found = {"float32": glow_nb.compile(function, backend=backend).run(asked)["progression"]}
    for schema in SCHEMAS:
        for method in METHODS:
            made = quant.quantize(function, ranges, schema=schema, method=method, least_gain=0)
            network = glow_nb.compile(made, backend=backend)
            found[f"{schema}, {method}"] = network.run(asked)["progression"]
    return found


def regression_table(epochs: int) -> list[str]:
    """Return the lines for the network that foretells how a disease goes on."""
    measured, came = load_patients()
    parts: list[dict[str, Array]] = []
    for rest, part in folds(len(came)):
        known, asked = (standardized(measured[each], measured[rest]) for each in (rest, part))
        function = trained(known, standardized(came[rest], came[rest]), epochs).freeze(asked)
        found = foretell(function, known, asked)
        parts.append(
            {name: each * came[rest].std() + came[rest].mean() for name, each in found.items()}
        )
    shares = {
        name: explained(np.concatenate([part[name] for part in parts]), came) for name in parts[0]
    }
    return [
        f"{name:40} {share:8.4f} {share - shares['float32']:+8.4f}"
        for name, share in shares.items()
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table and draw the picture."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--output", type=Path, default=Path("out"))
    parser.add_argument("--epochs", type=int, default=15, help="of the regression")
    given = parser.parse_args(arguments)
    given.output.mkdir(exist_ok=True)
    images, digits = load_digits()
    known, asked = split(len(digits), TESTED)
    ranges = quant.calibrate(MODEL, images[known])
    for line in table(ranges, images[asked], digits[asked]):
        print(line)
    made = quant.quantize(MODEL, ranges, least_gain=0)
    print(quant.correct_biases(MODEL, made, images[known]))
    found = quant.drift(MODEL, made, images[asked])
    print(found)
    found.plot(given.output / "drift.png")
    print(f"wrote drift.png to {given.output}")
    for line in regression_table(given.epochs):
        print(line)


if __name__ == "__main__":
    main()
