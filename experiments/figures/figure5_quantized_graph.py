"""What becomes of convolutions with ReLU when they are quantized? The paper's Figure 5 again.

The figure shows a subgraph of ResNet50 whose operators compute with integers. These are two
convolutions with ReLU and the one behind them, in the sizes of ResNet50's first blocks. One half is
what ``quant.quantize`` writes: operators on floats between conversions. The other half is what the
graph passes make of it: the conversions and ReLU are part of the operators, and nothing but
integers lies between them::

    python -m experiments.figures.figure5_quantized_graph --output figure5.png

writes the picture, and both graphs in Graphviz' dot language beside it (``figure5_before.dot`` and
``figure5_after.dot``).
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import glow_nb
from glow_nb import quant
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.dot import print_dot
from glow_nb.hlir.graph import Constant, Function, Node, Value
from glow_nb.hlir.ops import Convolution, DequantizeLinear, QuantizedConvolution, Relu
from glow_nb.system.replaced_files import replace_file
from glow_nb.tools.plots.graph import CONSTANT, Box, Drawing, draw, drawing_of

PIXELS, NARROW, WIDE = 56, 64, 256
CONVOLUTIONS = (Convolution, QuantizedConvolution)
HIDDEN = ("filter_scale", "filter_offset")
"""Operands that are told of in the box of the filter."""


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


def describe(node: Node) -> list[str]:
    """Return the lines below an operator: its window, and the type of its result."""
    kernel = [f"kernel {_product(node.kernel)}"] if isinstance(node, CONVOLUTIONS) else []
    lines = [*kernel, f"{node.type.kind.value} {_product(node.type.shape)}"]
    if node.type.scale is None:
        return lines
    return [*lines, f"scale {node.type.scale:.4g}", f"offset {node.type.offset}"]


def _product(sizes: Sequence[int]) -> str:
    return " × ".join(map(str, sizes))


def describe_constant(node: Node, name: str, constant: Constant) -> list[str]:
    """Return the kind and the shape of a constant, and that a filter has many scales."""
    return _constant_lines(name, constant, isinstance(node, QuantizedConvolution))


def _constant_lines(name: str, constant: Constant, is_quantized: bool) -> list[str]:
    scales = ["a scale a channel"] if is_quantized and name == "filter" else []
    return [f"{constant.type.kind.value} {_product(constant.type.shape)}", *scales]


def boxes_of(function: Function) -> Drawing:
    """Return the drawing of *function*, weights that are dequantized being constants."""
    whole = drawing_of(function, describe=describe, describe_constant=describe_constant)
    operands = {
        getattr(n, name): name for n in function for name in ("filter", "bias") if hasattr(n, name)
    }
    found = Drawing()
    for key, box in whole.boxes.items():
        match key:
            case (DequantizeLinear(), _, _):
                continue  # it is told of in the box of what is made of it
            case (_, name, _) if name in HIDDEN:
                continue
            case DequantizeLinear(input=Constant() as stored):
                name = operands[key]
                lines = tuple(_constant_lines(name, stored, True))
                found.boxes[key] = Box(name, lines, CONSTANT, is_constant=True)
            case _:
                found.boxes[key] = box
    for source, target in whole.edges:
        if source in found.boxes and target in found.boxes:
            found.edges[source, target] = ""  # the shapes are in the boxes
    return found


def side_by_side(functions: Sequence[Function]) -> Drawing:
    """Return one drawing of several graphs; quantized operators have the colours of others."""
    whole, colours = Drawing(), dict[str, str]()
    for place, function in enumerate(functions):
        part = boxes_of(function)
        for key, box in part.boxes.items():
            colour = colours.setdefault(box.title.removeprefix("quantized "), box.colour)
            whole.boxes[place, key] = replace(box, colour=colour)
        for (source, target), text in part.edges.items():
            whole.edges[(place, source), (place, target)] = text
    return whole


def write_dot(function: Function, path: Path) -> None:
    """Write *function* in Graphviz' language to the file *path*."""
    text = print_dot(function, constants=True)
    replace_file(path, lambda place: place.write_text(text, encoding="utf-8"))


def main(arguments: Sequence[str] | None = None) -> None:
    """Quantize the convolutions, optimize them, and draw both graphs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--output", type=Path, default=Path("figure5.png"))
    given = parser.parse_args(arguments)
    before = quantized(convolutions())
    after = glow_nb.optimize(before)
    stem = given.output.stem
    write_dot(before, given.output.with_name(f"{stem}_before.dot"))
    write_dot(after, given.output.with_name(f"{stem}_after.dot"))
    draw(
        side_by_side((before, after)),
        given.output,
        title="Convolutions of ResNet50, quantized",
        subtitle=f"{len(before.nodes)} nodes, floats between conversions, became "
        f"{len(after.nodes)} with integers between them.",
        note="Grey: constants. Each box says the type of its result; scale and offset say which "
        "number an integer stands for.",
    )
    print(f"wrote {given.output}, and {stem}_before.dot and {stem}_after.dot beside it")


if __name__ == "__main__":
    main()
