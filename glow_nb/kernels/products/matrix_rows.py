"""The left rows of a convolution that matrix registers multiply at once, in whole steps.

A left row is a pixel, whose channels are groups of neighbours, or a *run*: all taps of a line,
which are neighbours in memory. A step takes up to 16 groups of a row. Runs of few channels are
longer rows, but neighbouring outputs read the same pixels: so runs are copied to scratch, one for
each output, and the convolution is one of a single column of taps.
"""

from __future__ import annotations

from dataclasses import replace

from glow_nb.base.dot_instruction import groups_at_once
from glow_nb.base.size import symbols_of
from glow_nb.kernels.operators.panels import joins_taps
from glow_nb.kernels.products.convolution_shape import ConvolutionShape

LEAST_GROUPS = 8
"""Steps of fewer groups, where there are more, leave too much of the registers unused."""


def joins_runs(shape: ConvolutionShape, factors: int) -> bool:
    """Return whether the left rows of *shape* are runs: a pixel has few groups, or parts of some.

    Images of two dimensions alone have such rows.
    """
    channels, last = shape.channels_per_group, shape.kernel[-1]
    if symbols_of(channels) or shape.rank != 2 or last == 1:
        return False
    is_short = channels % factors != 0 or channels // factors < LEAST_GROUPS
    return is_short and joins_taps(factors, shape.group, shape.dilation)


def row_groups(shape: ConvolutionShape, factors: int) -> int | None:
    """Return the groups of a left row of *shape*; None if there are no steps of one size.

    Only groups of runs may be filled up.
    """
    channels = shape.channels_per_group
    if symbols_of(channels) or channels == 0:
        return None
    if joins_runs(shape, factors):
        groups = -(-shape.kernel[-1] * channels // factors)
    elif channels % factors:
        return None
    else:
        groups = channels // factors
    is_small = groups_at_once(groups) < min(groups, LEAST_GROUPS)
    return None if is_small else groups


def as_runs(shape: ConvolutionShape, factors: int) -> ConvolutionShape:
    """Return the convolution of the runs of *shape*, each of which is a pixel, filled up."""
    groups = -(-shape.kernel[-1] * shape.channels // factors)
    (begin, _), (end, _) = shape.begins, shape.ends
    return replace(
        shape,
        channels=groups * factors,
        input=(*shape.input[:-1], shape.output[-1]),
        kernel=(*shape.kernel[:-1], 1),
        stride=(*shape.stride[:-1], 1),
        pads=(begin, 0, end, 0),
        dilation=(*shape.dilation[:-1], 1),
    )
