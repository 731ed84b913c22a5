"""Columns that are added up in an image: what a sliding window has taken apart, put back."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from typing_extensions import override

from glow_nb.base.costs import Cost
from glow_nb.base.size import symbols_of
from glow_nb.base.types import Array, TensorType
from glow_nb.hlir.graph import Value, define_node
from glow_nb.hlir.ops.broadcast import Broadcast
from glow_nb.hlir.ops.families import NUMBERS, fitted, require_kind, require_type, splat, widest
from glow_nb.hlir.ops.phases import Line
from glow_nb.hlir.ops.scatter import ScatterND
from glow_nb.hlir.ops.shape import Reshape, Slice, Transpose
from glow_nb.hlir.ops.windows import Window, Windowed
from glow_nb.hlir.rewrite import Rewriter
from glow_nb.hlir.rules import lowers


@define_node("columns_to_image")
class ColumnsToImage(Windowed):
    """Add up an ``[N, C, *kernel, *places]`` tensor in an image ``[N, C, *image]``.

    ``result[n, c, o * stride + t * dilation - begin] += input[n, c, t, o]`` for all taps t of a
    window and all of its places o over the image; what falls outside of the image is dropped, and
    what nothing reaches is 0. ONNX calls it Col2Im, PyTorch fold. The channels come first. There
    may be any number of dimensions.

    Attributes:
        image: The spatial sizes of the result.
    """

    input: Value
    image: tuple[int, ...]

    @override
    def infer_type(self) -> TensorType:
        type, image, rank = self.input.type, self.image, len(self.image)
        require_kind(self, "input", type, NUMBERS)
        self.require(
            rank > 0 and all(n >= 0 for n in image),
            f"image {image} must be one or more sizes of 0 or more",
        )
        lengths = {"kernel": self.kernel, "stride": self.stride, "dilation": self.dilation}
        for name, values in lengths.items():
            self.require(
                len(values) == rank and min(values) > 0,
                f"{name} {values} must be {rank} positive numbers for image {image}",
            )
        self.require(
            len(self.pads) == 2 * rank and min(self.pads) >= 0,
            f"pads {self.pads} must be {2 * rank} numbers >= 0 for image {image}",
        )
        places = self.window.places(image)
        self.require(
            all(n > 0 for n in places),
            f"a window of span {self.window.span} does not fit the padded size "
            f"{self.window.padded(image)} of image {image}",
        )
        self.require(type.rank >= 2, f"input {type} must have samples and channels")
        wanted = type.with_shape((*type.shape[:2], *self.kernel, *places))
        require_type(self, "input", wanted, f"image {image}")
        return type.with_shape((*type.shape[:2], *image))

    @override
    def evaluate(self, input: Array) -> Array:
        window, rank = self.window, len(self.image)
        planes = prod(input.shape[:2])
        columns: Any = widest(input).reshape(planes, *input.shape[2:])
        total = np.zeros((planes, *window.padded(self.image)), columns.dtype)
        with np.errstate(all="ignore"):
            for tap, cells in window.taps(total, columns.shape[1 + rank :]):
                cells += columns[(slice(None), *tap)]
            inside = zip(self.pads[:rank], self.image, strict=True)
            image = total[(slice(None), *(slice(begin, begin + n) for begin, n in inside))]
            return fitted(image.reshape(self.type.shape), self.type)

    @override
    def cost(self) -> Cost:
        return Cost(0, self.input.type.size)


def lines_of(node: Any) -> tuple[Line, ...]:
    """Return which taps meet which elements in each dimension of *node*, or an instruction."""
    rank, window = len(node.image), Window(node.kernel, node.stride, node.pads, node.dilation)
    places, stride = node.input.type.shape[2 + rank :], window.with_short_strides(node.image).stride
    sizes = (places, node.image, node.kernel, stride, node.dilation, node.pads[:rank])
    return tuple(Line(*line) for line in zip(*sizes, strict=True))


@lowers(ColumnsToImage)
def lower_columns_to_image(node: ColumnsToImage, rewriter: Rewriter) -> Value | None:
    """Add rows of all channels, one for each tap at each place, to the places that they reach.

    Images of open sizes stay, as these places are constants.
    """
    if symbols_of(*node.image):
        return None
    emit, window, rank = rewriter.emit, node.window, len(node.image)
    batch, channels = node.type.shape[:2]
    padded, cells = window.padded(node.image), prod(node.input.type.shape[2:])
    rows = emit(Reshape(node.input, (batch * channels, cells)))
    updates = emit(Transpose(rows, (1, 0)))
    numbers = np.arange(prod(padded), dtype=np.int64).reshape(1, *padded, 1)
    out = node.input.type.shape[2 + rank :]
    reached = np.concatenate([cell.reshape(-1, 1) for _, cell in window.taps(numbers, out)])
    places = rewriter.constant(f"{node.name}_places", reached, is_weight=False)
    zero = splat(rewriter, TensorType(node.type.kind, (1, 1)), 0, "zero")
    zeros = emit(Broadcast(zero, (prod(padded), batch * channels)))
    total = emit(ScatterND(zeros, places, updates, reduction="add"))
    image = emit(Transpose(total, (1, 0)))
    whole = emit(Reshape(image, (batch, channels, *padded)))
    if padded == node.image:
        return whole
    starts = (0, 0, *node.pads[:rank])
    stops = tuple(begin + n for begin, n in zip(starts, node.type.shape, strict=True))
    return emit(Slice(whole, starts=starts, stops=stops, steps=(1,) * len(stops)))
