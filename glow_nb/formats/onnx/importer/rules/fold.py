"""Blocks put back where a sliding window took them from: Col2Im, which PyTorch calls fold."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from glow_nb.base.size import same, symbols_of
from glow_nb.formats.onnx.importer.context import Context
from glow_nb.formats.onnx.importer.node import OnnxNode
from glow_nb.formats.onnx.importer.registry import onnx_op
from glow_nb.hlir import ops
from glow_nb.hlir.graph import Value
from glow_nb.hlir.ops.windows import Window


@dataclass(frozen=True)
class _Fold:
    """A window, whose places over an image are those of the blocks.

    Attributes:
        image: Size of the image.
        window: The window; a block is as large as its kernel.
    """

    image: tuple[int, ...]
    window: Window

    @property
    def padded(self) -> tuple[int, ...]:
        """Size of the image with its padding."""
        return self.window.padded(self.image)

    @property
    def counts(self) -> tuple[int, ...]:
        """The number of blocks along each axis."""
        return self.window.places(self.image)

    @property
    def is_tiling(self) -> bool:
        """Return whether the blocks lie side by side and fill the image exactly."""
        block = self.window.kernel
        filled = tuple(n * k for n, k in zip(self.counts, block, strict=True))
        is_dense = block == self.window.stride and set(self.window.dilation) <= {1}
        return is_dense and filled == self.image == self.padded


@onnx_op("Col2Im", since=18)
def columns_to_image(ctx: Context, node: OnnxNode) -> Value:
    """Add up blocks ``[N, C * block, L]`` where they overlap, in an image ``[N, C, *image]``."""
    x, fold = node.operand(0), _fold_of(ctx, node)
    cells, blocks = prod(fold.window.kernel), prod(fold.counts)
    if x.type.rank != 3 or x.type.shape[1] % cells or not same(x.type.shape[2], blocks):
        raise ctx.wrong(
            f"input {x} must be [N, C * {cells}, {blocks}] for blocks {list(fold.window.kernel)} "
            f"of an image {list(fold.image)}"
        )
    batch, channels, rank = x.type.shape[0], x.type.shape[1] // cells, len(fold.image)
    if fold.is_tiling:
        apart = ctx.reshape(x, (batch, channels, *fold.window.kernel, *fold.counts))
        order = [2 + axis + part for axis in range(rank) for part in (rank, 0)]
        return ctx.reshape(ctx.transpose(apart, (0, 1, *order)), (batch, channels, *fold.image))
    if not symbols_of(*fold.image):
        ctx.spend(8 * max(cells * blocks, prod(fold.padded)))
    columns = ctx.reshape(x, (batch, channels, *fold.window.kernel, *fold.counts))
    return ctx.emit(ops.ColumnsToImage(columns, image=fold.image, **fold.window.attributes))


def _fold_of(ctx: Context, node: OnnxNode) -> _Fold:
    """Return where the blocks lie; raise ModelError if that is nowhere."""
    image = ctx.known_integers(node.operand(1), "'image_shape'")
    block = ctx.known_integers(node.operand(2), "'block_shape'")
    rank = len(image)
    ones = (1,) * rank
    strides, dilations = node.integers("strides", ones), node.integers("dilations", ones)
    pads = node.integers("pads", (0,) * 2 * rank)
    sizes = {"image_shape": image, "block_shape": block, "strides": strides, "dilations": dilations}
    for name, numbers in sizes.items():
        if len(numbers) != rank or any(n < 1 for n in numbers):
            raise ctx.wrong(f"{name} {list(numbers)} must be {rank} positive numbers")
    if len(pads) != 2 * rank or min(pads) < 0:
        raise ctx.wrong(f"pads {list(pads)} must be {2 * rank} numbers of 0 or more")
    fold = _Fold(image, Window(block, strides, pads, dilations))
    if any(count < 1 for count in fold.counts):
        raise ctx.wrong(
            f"blocks {list(block)} with dilations {list(dilations)} do not fit an image "
            f"{list(image)} with pads {list(pads)}"
        )
    return fold
