"""What becomes of convolutions with ReLU when they are quantized? The paper's Figure 5 again.

The figure shows a subgraph of ResNet50 whose operators compute with integers. These are two
convolutions with ReLU and the one after them, in the sizes of ResNet50's first blocks. One half is
what ``quant.quantize`` writes: operators on floats between conversions. The other half is what the
graph passes make of it: the conversions and ReLU are part of the operators, and nothing but
integers lies between them::

    python -m experiments.figures.figure5_quantized_graph

writes both graphs in Graphviz' language (``figure5_before.dot`` and ``figure5_after.dot``), and
their pictures where Graphviz is installed.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import glow_nb
from experiments.figures.graph_picture import write_graph
from glow_nb import quant
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Function, Value
from glow_nb.hlir.ops import Convolution, Relu

PIXELS, NARROW, WIDE = 56, 64, 256


def convolutions() -> Function:
    """Return a 3x3 convolution and a 1x1 convolution with ReLU, and another 1x1 convolution."""
    b, rng = Builder("block"), np.random.default_rng(0)
    x: Value = b.input("x", f"float32<1 x {PIXELS} x {PIXELS} x {NARROW}>")
    for depth, taps in ((NARROW, 3), (WIDE, 1), (NARROW, 1)):
        shape = (depth, taps, taps, x.type.shape[-1])
        deviation = np.sqrt(2 / np.prod(shape[1:]))
        filter = b.constant("filter", rng.normal(0, deviation, shape).astype(np.float32))
        bias = b.constant("bias", rng.normal(0, 0.1, depth).astype(np.float32))
        window: Any = {"stride": (1, 1), "pads": (taps // 2,) * 4, "dilation": (1, 1), "group": 1}
        x = b.emit(Convolution(x, filter, bias, kernel=(taps, taps), **window), name="convolution")
        if (depth, taps) != (NARROW, 1):
            x = b.emit(Relu(x), name="relu")
    b.save(x, "y")
    return b.function()


def quantized(function: Function) -> Function:
    """Return *function* with integers, calibrated on noise."""
    rng = np.random.default_rng(1)
    noise = {
        input.name: np.maximum(rng.standard_normal(input.type.shape), 0).astype(np.float32)
        for input in function.inputs
    }
    ranges = quant.calibrate(function, [noise], backend="interpreter")
    return quant.quantize(function, ranges, schema="asymmetric", least_gain=0)


def main(arguments: Sequence[str] | None = None) -> None:
    """Quantize the convolutions, optimize them, and draw both graphs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--folder", type=Path, default=Path())
    given = parser.parse_args(arguments)
    before = quantized(convolutions())
    after = glow_nb.optimize(before)
    print(
        f"{len(before.nodes)} nodes, floats between conversions, became {len(after.nodes)} with "
        "integers between them"
    )
    write_graph(before, given.folder / "figure5_before.dot")
    write_graph(after, given.folder / "figure5_after.dot")


if __name__ == "__main__":
    main()
