"""How far are the results of real networks from the truth, with Winograd's algorithm and without?

The truth is the same network in ``float64``, operator by operator. The largest difference of each
twin, over the largest output, is printed as the table that ``docs/accuracy.md`` shows::

    python -m experiments.accuracy --only squeezenet resnet50
"""

from __future__ import annotations

import argparse

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

import glow_nb
from experiments.twins import NAMES, make_twin
from glow_nb.distance import largest_distance
from glow_nb.duel.feeds import random_feeds
from glow_nb.types import Array

WAYS = ("auto", "off")


def in_float64(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return *model* with all weights, inputs and results in ``float64``."""
    wide = onnx.ModelProto()
    wide.CopyFrom(model)
    for tensor in wide.graph.initializer:
        if tensor.data_type == TensorProto.FLOAT:
            array = numpy_helper.to_array(tensor).astype(np.float64)
            tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    for value in (*wide.graph.input, *wide.graph.output, *wide.graph.value_info):
        if value.type.tensor_type.elem_type == TensorProto.FLOAT:
            value.type.tensor_type.elem_type = TensorProto.DOUBLE
    return wide


def truth_of(model: onnx.ModelProto, feeds: dict[str, Array]) -> dict[str, Array]:
    """Return the outputs of *model*, computed in ``float64``."""
    wide = glow_nb.load(in_float64(model))
    assert isinstance(wide, glow_nb.Function)
    return glow_nb.evaluate(wide, {key: x.astype(np.float64) for key, x in feeds.items()})


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=NAMES, default=NAMES)
    parser.add_argument("--batch", type=int, default=1)
    arguments = parser.parse_args()
    print("| network | " + " | ".join(f'`winograd="{way}"`' for way in WAYS) + " |")
    print("|---|" + "---:|" * len(WAYS))
    for name in arguments.only:
        model = make_twin(name, arguments.batch)
        feeds = random_feeds(model)
        truth = truth_of(model, feeds)
        errors = [
            largest_distance(
                truth.values(), glow_nb.compile(model, winograd=way).run(feeds).values()
            )
            for way in WAYS
        ]
        print(f"| {name} | " + " | ".join(f"{error:.1e}" for error in errors) + " |", flush=True)


if __name__ == "__main__":
    main()
