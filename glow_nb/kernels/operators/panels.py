"""Weights in panels: how they are checked, unpacked and laid out by ordinary nodes.

A panel holds ``block`` neighbouring output channels (columns) side by side, innermost, so that one
vector load brings the weights of as many results (paper, Figure 6). The last panel of a group is
padded with zeros.

Where a dot instruction multiplies groups, as many neighbouring weights of a channel (``factors``)
lie together, beside those of the other channels: ``[..., runs, ceil(run / factors), block *
factors]``. A run is what an output reads from neighbours in memory: one tap, or, where
``joins_taps``, all taps of a line, whose inputs follow one another. It is padded with zeros to
whole groups of factors.

The ``pack_*`` functions emit nodes that fold away when the weights are constant.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from glow_nb.base.dot_instruction import SINGLE, DotInstruction
from glow_nb.base.schema import operands_of
from glow_nb.base.types import Array, ElementKind, TensorType
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Node, Value
from glow_nb.hlir.ops.families import product_kind, widest
from glow_nb.hlir.ops.shape import Pad, Reshape, Transpose


def panels_of(depth: int, block: int) -> int:
    """Return how many panels of *block* hold *depth* channels."""
    return -(-depth // block)


def joins_taps(factors: int, group: int, dilation: Sequence[int]) -> bool:
    """Return whether the taps of a line are one run: groups of *factors* span several taps."""
    return factors > 1 and group == 1 and dilation[-1] == 1


def runs_of(kernel: Sequence[int], channels: int, *, joined: bool) -> tuple[tuple[int, ...], int]:
    """Return the number of runs in each dimension of *kernel*, and the weights of a run."""
    if not joined:
        return tuple(kernel), channels
    return (*kernel[:-1], 1), kernel[-1] * channels


def check_panels(
    node: Node,
    sizes: Iterable[int],
    *,
    depth: int,
    group: int,
    block: int,
    dot: DotInstruction = SINGLE,
    joined: bool = False,
    taps_inside: bool = False,
    wide: bool = False,
) -> ElementKind:
    """Check that filter and bias of *node* are panels, of *sizes* in each dimension.

    Return the kind of the sums, or raise VerifyError. The operands are the input ``[N, ..., C]``,
    the filter ``[group, panels, *sizes, C / group, block]``, or the same in groups that *dot*
    multiplies, and the bias ``[group * panels * block]``. If *taps_inside*, the channels lie before
    the sizes. If *wide*, sums of 16-bit floats are float32.
    """
    input, filter, bias, *_ = (operand.type for operand in operands_of(node))
    kind, channels = product_kind(node, input, filter, wide=wide), input.shape[-1]
    node.require(
        group > 0 and channels % group == 0 and depth % group == 0,
        f"{channels} channels of input {input} and depth {depth} do not divide into "
        f"group = {group}",
    )
    check_block(node, block)
    panels = panels_of(depth // group, block)
    taps, run = runs_of(tuple(sizes), channels // group, joined=joined)
    check_dot(node, dot, input, filter, run)
    groups = panels_of(run, dot.group)
    inner = (groups, *taps) if taps_inside else (*taps, groups)
    shape = (group, panels, *inner, block * dot.group)
    wanted = TensorType(filter.kind, shape)
    node.require(filter == wanted, f"'filter' is {filter}, but input {input} needs {wanted}")
    wanted = TensorType(kind, (group * panels * block,))
    node.require(bias == wanted, f"'bias' is {bias}, but filter {filter} needs {wanted}")
    return kind


def check_block(node: Node, block: int) -> None:
    """Raise VerifyError unless panels of *block* columns can be."""
    node.require(block > 0, f"block is {block}, but must be positive")


def check_dot(
    node: Node, dot: DotInstruction, left: TensorType, right: TensorType, run: int
) -> None:
    """Raise VerifyError unless *dot* multiplies *left* by *right* elements in groups of a *run*."""
    node.require(
        dot.multiplies(left.kind, right.kind) and not dot.is_paired,
        f"its plan has dot = {dot.name!r}, which multiplies no panels of {left.kind.value} and "
        f"{right.kind.value}; name another instruction",
    )
    node.require(
        dot.fits(run),
        f"its plan has dot = {dot.name!r}, of whole groups of {dot.group} floats, but {run} "
        "neighbours are multiplied; name another instruction",
    )


def unpacked_filter(filter: Array, depth: int, factors: int = 1) -> Array:
    """Return ``[group, panels, *runs, groups, block * factors]`` as ``[depth, *runs, weights]``."""
    group, panels, *runs, groups, width = filter.shape
    block = width // factors
    plain = widest(filter).reshape(group, panels, *runs, groups, block, factors)
    plain = np.moveaxis(plain, -2, 2)  # [group, panels, block, *runs, groups, factors]
    plain = plain.reshape(group, panels * block, *runs, groups * factors)
    plain = plain[:, : depth // group]  # without the padding
    result: Array = plain.reshape(depth, *runs, groups * factors)
    return result


def unpacked_matrix(rhs: Array, depth: int, factors: int = 1) -> Array:
    """Return ``[batch..., panels, groups, block * factors]`` as ``[batch..., weights, depth]``."""
    *batch, panels, groups, width = rhs.shape
    block = width // factors
    plain = widest(rhs).reshape(*batch, panels, groups, block, factors)
    plain = np.moveaxis(plain, (-3, -1, -4, -2), (-4, -3, -2, -1))
    plain = plain.reshape(*batch, groups * factors, panels * block)
    result: Array = plain[..., :depth]
    return result


def pack_filter(
    builder: Builder,
    filter: Value,
    group: int,
    block: int,
    factors: int = 1,
    *,
    joined: bool = False,
    taps_inside: bool = False,
) -> Value:
    """Emit the nodes that pack a ``[K, *kernel, C / group]`` *filter* for PackedConvolution.

    Args:
        builder: Receives the nodes.
        filter: The filter.
        group: Groups of channels.
        block: Output channels of a panel.
        factors: Neighbouring weights that lie together.
        joined: The taps of a line are one run.
        taps_inside: Lay the taps of each group of *factors* weights together.
    """
    depth, *kernel, channels = filter.type.shape
    per_group = depth // group
    panels = panels_of(per_group, block)
    taps, run = runs_of(kernel, channels, joined=joined)
    rows: Value = builder.emit(Reshape(filter, (group, per_group, *taps, run)))
    rows = pad_end(builder, rows, 1, panels * block - per_group)
    rows = pad_end(builder, rows, rows.type.rank - 1, -run % factors)
    rows = builder.emit(Reshape(rows, (group, panels, block, *taps, *_groups(run, factors))))
    last = rows.type.rank - (factors > 1)
    places = list(range(3, last))
    if taps_inside:
        places.insert(0, places.pop())
    order = (0, 1, *places, 2, *range(last, rows.type.rank))
    return _joined_end(builder, builder.emit(Transpose(rows, order)), factors)


def _groups(run: int, factors: int) -> tuple[int, ...]:
    """Return the sizes of a run in groups; groups of one are no dimension of their own."""
    return (run,) if factors == 1 else (panels_of(run, factors), factors)


def _joined_end(builder: Builder, value: Value, factors: int) -> Value:
    """Emit what makes one dimension of the last two, a block of groups of *factors*."""
    if factors == 1:
        return value
    *outer, block, _ = value.type.shape
    return builder.emit(Reshape(value, (*outer, block * factors)))


def pack_bias(builder: Builder, bias: Value, group: int, block: int) -> Value:
    """Emit the nodes that pad each group of a ``[K]`` *bias* with zeros to whole panels."""
    per_group = bias.type.size // group
    size = panels_of(per_group, block) * block
    rows: Value = builder.emit(Reshape(bias, (group, per_group)))
    rows = pad_end(builder, rows, 1, size - per_group)
    return builder.emit(Reshape(rows, (group * size,)))


def pack_depthwise_filter(builder: Builder, filter: Value) -> Value:
    """Emit the nodes that pack a ``[C * m, *kernel, 1]`` *filter* for DepthwiseConvolution."""
    rows = builder.emit(Reshape(filter, filter.type.shape[:-1]))
    return builder.emit(Transpose(rows, (*range(1, rows.type.rank), 0)))


def pack_grouped_filter(builder: Builder, filter: Value) -> Value:
    """Emit the node that packs a ``[C, *kernel, m]`` *filter* for GroupedConvolution."""
    return builder.emit(Transpose(filter, (*range(1, filter.type.rank), 0)))


def pack_matrix(builder: Builder, rhs: Value, block: int, factors: int = 1) -> Value:
    """Emit the nodes that pack a ``[batch..., K, N]`` matrix *rhs* for PackedMatMul."""
    *batch, inner, depth = rhs.type.shape
    panels = panels_of(depth, block)
    rank = len(batch)
    padded = pad_end(builder, rhs, rank + 1, panels * block - depth)
    padded = pad_end(builder, padded, rank, -inner % factors)
    groups = _groups(inner, factors)
    rows = builder.emit(Reshape(padded, (*batch, *groups, panels, block)))
    panel = rank + len(groups)
    order = (*range(rank), panel, rank, panel + 1, *range(rank + 1, panel))
    return _joined_end(builder, builder.emit(Transpose(rows, order)), factors)


def pad_end(builder: Builder, value: Value, axis: int, count: int) -> Value:
    """Emit *value* with *count* zeros at the end of *axis*."""
    if count == 0:
        return value
    rank = value.type.rank
    pads = tuple(count if i == rank + axis else 0 for i in range(2 * rank))
    return builder.emit(Pad(value, pads))
