"""Which weights lie side by side so that pairs of products of bytes never saturate.

``vpmaddubsw`` multiplies unsigned bytes by signed ones and adds the products of neighbours, in 16
bits: what is larger becomes the largest number. Sums of two products with any bytes fit if the
positive ones of the two weights are at most 128 together, and so the negative ones: 255 * 128 =
32640. Of the weights of a trained network few are so large, but enough that most vectors of a
filter hold such a pair.

So weights are *paired* anew for each panel of output channels: of the 16 inputs of a *window*, any
two may be neighbours, as the kernel shuffles the bytes of a window when it loads them. Two inputs
can be a pair if their weights fit in all channels of the panel. An input that finds no other is
paired with a weight of zero. Two pairs are a *step* of a sum.

The *order* tells what each step takes: four bytes with the places of its factors within the window,
0 to 15, and one byte that tells by how many inputs the window moves on before the step: none, or
16 if it is the first step of the next window.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from glow_nb.types import Array

WINDOW = 16
"""Neighbouring inputs of which a step takes any: what one shuffle of bytes reaches."""

FACTORS = 4
"""Inputs that a step multiplies: two pairs."""

LARGEST_PAIR = 128
"""What the weights of one sign of a pair may be together."""

NONE = -1
"""In place of the number of an input: there is none."""


@dataclass(frozen=True)
class PairedWeights:
    """The weights of a convolution in steps.

    Attributes:
        filter: ``[steps, block * 4]`` of int8: of each output channel of a panel four weights.
        order: Of int32, ``[order_size(panels * runs, steps)]``: where the steps of each run of each
            panel begin, and where the last ones end; then the places of each step, four bytes;
            then the moves of the window, a byte for each step.
    """

    filter: Array
    order: Array


def order_size(runs: int, steps: int) -> int:
    """Return the elements of the order of so many *steps* of the *runs* of all panels."""
    return runs + 1 + steps + -(-steps // FACTORS)


def paired(weights: Array, block: int) -> PairedWeights:
    """Return int8 *weights* ``[depth, runs, run]`` in panels of *block* channels and in steps."""
    depth, runs, run = weights.shape
    panels, windows = -(-depth // block), -(-run // WINDOW)
    pads = ((0, panels * block - depth), (0, 0), (0, windows * WINDOW - run))
    panes = np.pad(weights, pads).reshape(panels, block, runs, windows, WINDOW)
    panes = np.ascontiguousarray(panes.transpose(1, 0, 2, 3, 4))
    panes = panes.reshape(block, panels * runs * windows, WINDOW)
    used = np.arange(windows * WINDOW).reshape(windows, WINDOW) < run
    pairs = _pairs(_can_be_pairs(panes), np.tile(used, (panels * runs, 1)))
    steps = pairs.reshape(len(pairs), 2 * WINDOW // FACTORS, FACTORS)  # [windows of all, steps, 4]
    is_step = (steps != NONE).any(axis=2)
    of_window, number = np.nonzero(is_step)  # in the order of windows, then of steps
    places = steps[of_window, number]
    filter = panes[:, of_window[:, None], np.maximum(places, 0)]
    filter = np.where(places == NONE, np.int8(0), filter)  # [block, steps, factors]
    order = np.zeros(order_size(panels * runs, len(places)), np.int32)
    begins, numbers, moves = _parts(order, panels * runs, len(places))
    begins[1:] = np.cumsum(is_step.sum(axis=1).reshape(panels * runs, windows).sum(axis=1))
    numbers[:] = np.maximum(places, 0)
    moves[:] = WINDOW * ((number == 0) & (of_window % windows > 0))
    filter = np.ascontiguousarray(filter.transpose(1, 0, 2))
    return PairedWeights(filter.reshape(len(places), block * FACTORS), order)


def _parts(order: Array, runs: int, steps: int) -> tuple[Array, Array, Array]:
    """Return views of the begins, the places and the moves in an *order*."""
    bytes = order[runs + 1 :].view(np.uint8)
    places = bytes[: steps * FACTORS].reshape(steps, FACTORS)
    return order[: runs + 1], places, bytes[steps * FACTORS :][:steps]


def unpaired(weights: PairedWeights, depth: int, runs: int, run: int) -> Array:
    """Return what :func:`paired` made *weights* of, ``[depth, runs, run]``, as int64."""
    block = weights.filter.shape[1] // FACTORS
    panels = -(-depth // block)
    begins, places, moves = _parts(weights.order, panels * runs, len(weights.filter))
    counts = np.diff(begins)
    moved = np.cumsum(moves, dtype=np.int64)
    before = np.concatenate([[0], moved])[begins[:-1]]  # what earlier runs moved on
    places = (moved - np.repeat(before, counts))[:, None] + places
    pane = np.repeat(np.arange(panels * runs), counts)[:, None]
    made = np.zeros((panels * runs, -(-run // WINDOW) * WINDOW, block), np.int64)
    factors = weights.filter.reshape(len(places), block, FACTORS).transpose(0, 2, 1)
    np.add.at(made, (pane, places), factors)
    made = made.reshape(panels, runs, made.shape[1], block)[:, :, :run]
    result: Array = made.transpose(0, 3, 1, 2).reshape(panels * block, runs, run)[:depth]
    return result


def _can_be_pairs(panes: Array) -> Array:
    """Return which inputs of each window fit each other, ``[windows, 16, 16]``.

    Args:
        panes: Weights ``[block, windows, 16]``.
    """
    shape = (*panes.shape[1:], WINDOW)
    fits = np.ones(shape, np.bool_)
    wide = panes.astype(np.int16)
    for part in (np.maximum(wide, 0), np.maximum(-wide, 0)):
        parts = part.astype(np.uint8)
        rest = np.uint8(LARGEST_PAIR) - parts
        for channel in np.flatnonzero((parts > LARGEST_PAIR // 2).any(axis=(1, 2))):
            fits &= parts[channel, :, :, None] <= rest[channel, :, None, :]
    fits[:, range(WINDOW), range(WINDOW)] = False
    return fits


def _pairs(fits: Array, free: Array) -> Array:
    """Return pairs of the inputs that are *free*, ``[windows, 16, 2]``, with none behind them.

    The input that fits the fewest others comes first, and takes the one that fits the fewest.
    """
    count = len(fits)
    windows, free = np.arange(count), free.copy()
    pairs = np.full((count, WINDOW, 2), NONE)
    fits = fits & free[:, None, :] & free[:, :, None]
    for number in range(WINDOW):
        degrees = fits.sum(axis=2, dtype=np.int16)
        is_left = free.any(axis=1)
        if not is_left.any():
            break
        first = np.where(free, degrees, WINDOW).argmin(axis=1)
        others = fits[windows, first]
        second = np.where(others, degrees, WINDOW).argmin(axis=1)
        has_other = others.any(axis=1) & is_left
        pairs[:, number, 0] = np.where(is_left, first, NONE)
        pairs[:, number, 1] = np.where(has_other, second, NONE)
        for taken, which in ((first, is_left), (second, has_other)):
            free[windows[which], taken[which]] = False
            fits[windows[which], taken[which]] = False
            fits[windows[which], :, taken[which]] = False
    return pairs
