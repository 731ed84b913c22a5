"""Winograd's form of convolutions, which a backend with SIMD selects:
:mod:`glow_nb.numerics.cook_toom`.

In each spatial dimension ``m`` neighbouring outputs of a filter with ``r`` taps and stride ``s``
take ``n = (m - 1) s + r`` products instead of ``m r``.

Bytes are transformed to 16-bit integers, by matrices of integers, and pairs of these are
multiplied and summed up in 32 bits. Results are exact if they fit
(:mod:`glow_nb.kernels.winograd.exactness`). Their filter is transformed by the kernel, on its path
from memory: with 4 x 4 outputs of 3 x 3 taps it would take 8 times as many bytes there.
"""

from __future__ import annotations

from math import gcd, prod

import numpy as np
from typing_extensions import override

from glow_nb.base.costs import Cost
from glow_nb.base.dot_instruction import PAIRS, SINGLE
from glow_nb.base.size import Size
from glow_nb.base.types import Array, ElementKind, TensorType
from glow_nb.hlir.graph import Node, Value, define_node
from glow_nb.hlir.ops.convolution import convolution_cost, convolve, require_pad_value
from glow_nb.hlir.ops.families import fitted, require_kind, widest
from glow_nb.hlir.ops.matrix import MatMul
from glow_nb.hlir.ops.quantization import BYTES
from glow_nb.hlir.ops.shape import Reshape
from glow_nb.hlir.ops.windows import Windowed
from glow_nb.hlir.recipe import WeightTransform
from glow_nb.hlir.rewrite import Rewriter
from glow_nb.hlir.rules import lowers
from glow_nb.kernels.operators.panels import check_panels, unpacked_filter
from glow_nb.numerics.cook_toom import (
    ShortConvolution,
    WholeDivision,
    inputs_of,
    is_known,
    scale_of,
    short_convolution,
    tap_noise,
)

COMPUTED_FLOATS = frozenset({ElementKind.FLOAT32, ElementKind.FLOAT64})
WHOLE_FACTORS = ElementKind.INT16
"""What integers are transformed to, and multiplied as."""

MOST_DIMENSIONS = 3

COLUMNS = 512
"""Columns of a filter that one product transforms."""


@define_node("winograd_filter")
class WinogradFilter(WeightTransform):
    """Transform a packed filter along its taps.

    ``result[..., j, c, b]`` is the sum over i of ``G[j, i] filter[..., i, c, b]``.
    ``filter`` is ``[group, panels, *r, C / group, block]``, the result
    ``[group, panels, *n, C / group, block]``; with two dimensions it is ``G filter G^T``. The
    last two dimensions may hold channels and columns in any order.

    Attributes:
        tile: Outputs m that will be computed together, in each spatial dimension.
        stride: Distance s of the windows of two of them.
    """

    filter: Value
    tile: tuple[int, ...]
    stride: tuple[int, ...]

    @property
    def taps(self) -> tuple[int, ...]:
        """Taps r in each dimension."""
        return self.filter.type.shape[2:-2]

    @property
    def matrix(self) -> Array:
        """The transform of all dimensions at once, ``[prod(n), prod(r)]``, in ``float64``."""
        matrix: Array = np.ones((1, 1))
        for sizes in zip(self.tile, self.taps, self.stride, strict=True):
            matrix = np.kron(matrix, short_convolution(*sizes).filter)
        return matrix

    @override
    def infer_type(self) -> TensorType:
        filter = self.filter.type
        require_kind(self, "filter", filter, COMPUTED_FLOATS)
        self.require(
            len(self.tile) in range(1, MOST_DIMENSIONS + 1)
            and filter.rank == len(self.tile) + len(("group", "panels", "channels", "block")),
            f"'filter' is {filter}, which lacks the dimensions of tile {list(self.tile)}",
        )
        _check_tile(self, self.tile, self.taps, self.stride, whole=False)
        sizes = (inputs_of(*axis) for axis in zip(self.tile, self.taps, self.stride, strict=True))
        shape = (*filter.shape[:2], *sizes, *filter.shape[-2:])
        return TensorType(filter.kind, shape)

    @override
    def evaluate(self, filter: Array) -> Array:
        result = np.empty(self.type.shape, self.type.kind.dtype)
        self.transform(filter, result)
        return result

    @override
    def transform(self, weight: Array, result: Array) -> None:
        group, panels, *_, channels, block = weight.shape
        taps, columns = prod(self.taps), gcd(channels * block, COLUMNS)
        matrix = self.matrix
        places = result.reshape(group * panels, len(matrix), channels * block // columns, columns)
        # One panel at a time, so that its numbers in float64 stay in the cache, in products that
        # are too small for the threads of a BLAS: other filters are transformed at the same time.
        # A packed filter is a transposed view as a rule, which a reshape as a whole would copy.
        for panel, place in zip(weight.reshape(-1, *weight.shape[2:]), places, strict=True):
            cut = np.moveaxis(widest(panel.reshape(taps, *place.shape[1:])), 1, 0)
            to = np.moveaxis(place, 1, 0)
            np.copyto(to, matrix @ cut, casting="same_kind")

    @override
    def cost(self) -> Cost:
        return Cost(self.type.size * prod(self.taps))


@lowers(WinogradFilter)
def lower_winograd_filter(node: WinogradFilter, rewriter: Rewriter) -> Value:
    """Express the transform as matrix products, one for each panel."""
    group, panels, *_, channels, block = node.filter.type.shape
    kind = node.type.kind
    matrix = node.matrix.astype(kind.dtype)
    repeated = np.broadcast_to(matrix, (group * panels, *matrix.shape))
    transform = rewriter.constant(f"{node.name}_transform", np.ascontiguousarray(repeated))
    taps = (group * panels, prod(node.taps), channels * block)
    made = rewriter.emit(MatMul(transform, rewriter.emit(Reshape(node.filter, taps))))
    return rewriter.emit(Reshape(made, node.type.shape))


@define_node("winograd_convolution")
class WinogradConvolution(Windowed):
    """Convolve like :class:`Convolution`, by tiles of outputs.

    With a dilation, the outputs of a tile are as far apart as the taps, so that their windows share
    inputs. There are as many phases of such outputs, and the stride is 1 then.

    With ``d`` the n x n inputs of a tile and ``U`` the filter, its m x m outputs are
    ``A (sum over c of U[c] * (B d[c] B^T)) A^T + bias``. ``filter`` is
    ``[group, panels, *n, C / group, block]``, from :class:`WinogradFilter`, and ``bias``
    ``[group * panels * block]``, where ``panels = ceil(depth / group / block)``, both padded with
    zeros at the end of each group; the result is ``[N, *out, depth]``.

    Bytes take a filter of integers that is not transformed, with the weights of two neighbouring
    input channels together: ``[group, panels, ceil(C / group / 2), *r, block * 2]``. U is
    ``q G filter G^T`` in int16, which wraps around (:mod:`glow_nb.numerics.cook_toom`). The result
    is int32, which wraps around before it is divided by ``q``
    (:class:`glow_nb.numerics.cook_toom.WholeDivision`).

    The transforms spread NaN and infinity over a whole tile, and may overflow where the direct sum
    does not. If *guarded*, a result that is not finite so is the direct sum of its own window and
    the taps that U was made of, as far as U tells them: one that is below the rounding errors of U
    beside the largest tap of its channels counts as zero.

    ``evaluate`` computes just that, in ``float64``: it tells the rounding errors of a kernel, all
    but those of the rounded filter, which it takes as it is.

    Attributes:
        depth: Output channels.
        tile: Outputs m of a tile in each dimension.
        group: Channels are cut into this number of groups that are convolved apart.
        block: Output channels in a panel.
        guarded: Sum up directly what is not finite.
        pad_value: The number that cells outside the input count as, of bytes.
    """

    input: Value
    filter: Value
    bias: Value
    depth: int
    tile: tuple[int, ...]
    group: int
    block: int
    guarded: bool = False
    pad_value: int = 0

    @property
    def is_whole(self) -> bool:
        """Return whether integers are convolved."""
        return not self.input.type.kind.is_float

    @property
    def factors(self) -> int:
        """Neighbouring weights of a channel that lie together."""
        return 2 if self.is_whole else 1

    @property
    def transforms(self) -> list[ShortConvolution]:
        """The matrices of each dimension."""
        sizes = zip(self.tile, self.kernel, self.stride, strict=True)
        return [short_convolution(*axis, whole=self.is_whole) for axis in sizes]

    @property
    def counts(self) -> tuple[int, ...]:
        """Tiles in each dimension, those of all phases."""
        sizes = zip(self.type.shape[1:-1], self.tile, self.dilation, strict=True)
        return tuple(tiles_of(*axis) for axis in sizes)

    @override
    def infer_type(self) -> TensorType:
        input = self.input.type
        require_kind(self, "input", input, COMPUTED_FLOATS | BYTES)
        self.require(
            len(self.kernel) <= MOST_DIMENSIONS and len(self.tile) == len(self.kernel),
            f"tile {list(self.tile)} must have a size for each dimension of kernel "
            f"{list(self.kernel)}, which are at most {MOST_DIMENSIONS}",
        )
        out = self.window.checked(self, input)
        _check_tile(self, self.tile, self.kernel, self.stride, whole=self.is_whole)
        self.require(
            all(1 in axis for axis in zip(self.stride, self.dilation, strict=True)),
            f"stride {list(self.stride)} and dilation {list(self.dilation)}: one of them must be 1 "
            "in each dimension",
        )
        if self.is_whole:
            self._check_integers()
        kind = check_panels(
            self,
            self.kernel if self.is_whole else [each.size for each in self.transforms],
            depth=self.depth,
            group=self.group,
            block=self.block,
            dot=PAIRS if self.is_whole else SINGLE,
            taps_inside=self.is_whole,
        )
        if isinstance(self.filter, WinogradFilter):
            made, wanted = (
                f"tile {list(tile)}, kernel {list(taps)} and stride {list(stride)}"
                for tile, taps, stride in (
                    (self.filter.tile, self.filter.taps, self.filter.stride),
                    (self.tile, self.kernel, self.stride),
                )
            )
            self.require(made == wanted, f"'filter' is made for {made}, not for {wanted}")
        require_pad_value(self, input, self.pad_value)
        return TensorType(kind, (input.shape[0], *out, self.depth))

    def _check_integers(self) -> None:
        require_kind(self, "filter", self.filter.type, BYTES | {WHOLE_FACTORS})
        self.require(not self.guarded, "guarded is true, but integers are finite; leave it false")

    @override
    def evaluate(self, input: Array, filter: Array, bias: Array) -> Array:
        rank, per_group = len(self.kernel), self.depth // self.group
        input = input.astype(np.float64)  # in which integers are exact, too
        tiles = self._tiles(input)
        counts = tiles.shape[: rank + 1]
        with np.errstate(all="ignore"):
            for each in self.transforms:  # each takes the axis after the counts and puts it last
                tiles = np.tensordot(tiles, each.input, axes=(rank + 1, 1))
            # [N, *counts, C, *n] -> [group, products, tiles, C / group]
            channels, products = input.shape[-1] // self.group, prod(tiles.shape[rank + 2 :])
            factors = tiles.reshape(prod(counts), self.group, channels, products)
            factors = factors.transpose(1, 3, 0, 2)
            plain = unpacked_filter(self._factors(filter), self.depth, self.factors)[..., :channels]
            weights = plain.reshape(self.group, per_group, products, channels)
            # [group, products, tiles, K / group] -> [N, *counts, K, *n]
            sums = (factors @ weights.transpose(0, 2, 3, 1)).transpose(2, 0, 3, 1)
            sums = sums.reshape(*counts, self.depth, *(each.size for each in self.transforms))
            for each in self.transforms:
                sums = np.tensordot(sums, each.output, axes=(rank + 2, 1))
            offsets = widest(bias).reshape(self.group, -1)[:, :per_group].reshape(self.depth)
            outputs = self._joined(sums)
            if self.is_whole:
                divided = WholeDivision.by(scale_of(self.tile, self.kernel))
                return fitted(divided(outputs.astype(np.int64)) + offsets, self.type)
            is_right = np.isfinite(outputs)
            if self.guarded and not is_right.all():
                plain = unpacked_filter(self._taps(filter), self.depth)
                outputs = np.where(is_right, outputs, convolve(self, input, plain, self.group))
            return fitted(outputs + offsets, self.type)

    def _factors(self, filter: Array) -> Array:
        """Return ``[group, panels, *n, ...]``: *filter*, which is transformed if of integers."""
        if not self.is_whole:
            return filter
        rank, made = len(self.kernel), filter.astype(np.float64)
        for each in reversed(self.transforms):  # each takes the axis before the last to the front
            made = np.tensordot(each.filter, made, axes=(1, made.ndim - 2))
        made = np.moveaxis(made, range(rank), range(2, 2 + rank))
        return made.astype(np.int64).astype(WHOLE_FACTORS.dtype)

    def _taps(self, filter: Array) -> Array:
        """Return the packed taps of which *filter* was made."""
        taps, axes = widest(filter), tuple(range(2, 2 + len(self.kernel)))
        for axis, each in zip(axes, self.transforms, strict=True):
            taps = np.moveaxis(np.tensordot(each.recovery, taps, axes=(1, axis)), 0, axis)
        noise = tap_noise(self.transforms, self.type.kind)
        mixed = axes if self.tile[0] > 1 else axes[-2:]  # see WinogradNest.volume
        is_noise = np.abs(taps) < noise * np.abs(taps).max(axis=mixed, keepdims=True)
        return np.where(is_noise, 0.0, taps)

    def _tiles(self, input: Array) -> Array:
        """Return the inputs of all tiles, ``[N, *counts, *n, C]``, padded with what is outside."""
        rank, tiles = len(self.kernel), input
        for axis, each in enumerate(self.transforms):
            begin, apart = self.pads[axis], self.dilation[axis]
            firsts = self._firsts(axis) * each.stride
            places = firsts[:, None] + np.arange(each.size) * apart
            widths = [(0, 0)] * tiles.ndim
            at = 1 + 2 * axis  # behind the images, and counts and inputs of the axes before
            widths[at] = (begin, max(0, places.max(initial=0) + 1 - begin - input.shape[axis + 1]))
            padded = np.pad(tiles, widths, constant_values=self.pad_value)
            tiles = np.take(padded, places, axis=at)
        inputs, counts = range(2, 2 * rank + 1, 2), range(1, 2 * rank, 2)
        return tiles.transpose(0, *counts, *inputs, 2 * rank + 1)

    def _joined(self, tiles: Array) -> Array:
        """Return ``[N, *counts, K, *m]`` as ``[N, *out, K]``."""
        rank = len(self.kernel)
        order = [0, *(axis for i in range(rank) for axis in (1 + i, rank + 2 + i)), rank + 1]
        sizes = [tiles.shape[1 + i] * m for i, m in enumerate(self.tile)]
        joined = tiles.transpose(order).reshape(tiles.shape[0], *sizes, self.depth)
        for axis, (m, apart) in enumerate(zip(self.tile, self.dilation, strict=True)):
            places = self._firsts(axis)[:, None] + np.arange(m) * apart
            joined = np.take(joined, np.argsort(places, axis=None), axis=axis + 1)
        return joined[(slice(None), *(slice(size) for size in self.type.shape[1:-1]))]

    def _firsts(self, axis: int) -> Array:
        """Return the first output of each tile along *axis*, phase by phase."""
        apart, outputs, size = self.dilation[axis], self.tile[axis], self.type.shape[axis + 1]
        phases = np.arange(min(apart, size))
        tiles = np.arange(tiles_of_phase(size, outputs, apart))
        return (phases[:, None] + tiles * outputs * apart).reshape(-1)

    @override
    def cost(self) -> Cost:
        return convolution_cost(self)

    @override
    def executed_cost(self) -> Cost:
        """Count the products, and for every number other than 0 in a matrix one addition."""
        batch, *_, depth = self.type.shape
        channels = self.input.type.shape[-1]
        tiles = batch * prod(self.counts)
        sizes = [each.size for each in self.transforms]
        additions = 0
        for axis, each in enumerate(self.transforms):
            others = prod(sizes[axis + 1 :])
            inputs, outputs = prod(sizes[:axis]) * others, prod(self.tile[:axis]) * others
            additions += channels * int(np.count_nonzero(each.input)) * inputs
            additions += depth * int(np.count_nonzero(each.output)) * outputs
        products = tiles * prod(sizes) * depth * channels // self.group
        return Cost(products, tiles * additions + self.type.size)


def tiles_of(size: int, outputs: int, dilation: int) -> int:
    """Return how many tiles of *outputs* outputs there are along a dimension, in all phases.

    All phases that have outputs have as many tiles as the longest one: some may be empty. Where the
    size is open, all phases have.
    """
    phases = dilation if isinstance(size, Size) else min(dilation, size)
    return phases * tiles_of_phase(size, outputs, dilation)


def tiles_of_phase(size: int, outputs: int, dilation: int) -> int:
    """Return how many tiles the longest phase has; see :func:`tiles_of`."""
    return (size + outputs * dilation - 1) // (outputs * dilation)


def _check_tile(
    node: Node,
    tile: tuple[int, ...],
    taps: tuple[int, ...],
    strides: tuple[int, ...],
    *,
    whole: bool,
) -> None:
    """Raise VerifyError unless there is an algorithm for these outputs, taps and strides."""
    kind = " of integers" if whole else ""
    node.require(
        len(strides) == len(tile),
        f"stride {list(strides)} must have a size for each dimension of tile {list(tile)}",
    )
    for outputs, count, stride in zip(tile, taps, strides, strict=True):
        node.require(
            is_known(outputs, count, stride, whole=whole),
            f"there is no algorithm for {outputs} outputs of {count} taps{kind} with stride "
            f"{stride}; choose another tile",
        )
