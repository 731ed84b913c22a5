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

The *order* tells what each step takes: four bytes, of which the lower four bits are the places of
its factors within the window. If it is the first step of the next window, bit 4 of the first byte
is set: the window moves on by 16 inputs before the step. ``vpshufb`` does not look at that bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

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

BIT_COUNTS = np.unpackbits(np.arange(1 << WINDOW, dtype=np.uint16)[:, None].view(np.uint8), axis=1)
BIT_COUNTS = BIT_COUNTS.sum(axis=1, dtype=np.uint8)
"""Of each number of 16 bits."""


@dataclass(frozen=True)
class PairedWeights:
    """The weights of a convolution in steps.

    Attributes:
        filter: ``[steps, block * 4]`` of int8: of each output channel of a panel four weights.
        order: ``[panels * runs + 1 + steps]`` of int32: where the steps of each run of each panel
            begin, and where the last ones end; then the four bytes of each step.
    """

    filter: Array
    order: Array


def paired(weights: Array, block: int) -> PairedWeights:
    """Return int8 *weights* ``[depth, runs, run]`` in panels of *block* channels and in steps."""
    depth, runs, run = weights.shape
    panels, windows = -(-depth // block), -(-run // WINDOW)
    pads = ((0, panels * block - depth), (0, 0), (0, windows * WINDOW - run))
    panes = np.pad(weights, pads).reshape(panels, block, runs, windows, WINDOW)
    panes = np.ascontiguousarray(panes.transpose(1, 0, 2, 3, 4))
    panes = panes.reshape(block, panels * runs * windows, WINDOW)
    used = np.arange(windows * WINDOW).reshape(windows, WINDOW) < run
    pairs = _pairs(_partners(panes), np.tile(used, (panels * runs, 1)))
    steps = pairs.reshape(len(pairs), 2 * WINDOW // FACTORS, FACTORS)  # [windows of all, steps, 4]
    is_step = (steps != NONE).any(axis=2)
    of_window, number = np.nonzero(is_step)  # in the order of windows, then of steps
    places = steps[of_window, number]
    filter = panes[:, of_window[:, None], np.maximum(places, 0)]
    filter = np.where(places == NONE, np.int8(0), filter)  # [block, steps, factors]
    order = np.zeros(panels * runs + 1 + len(places), np.int32)
    begins, bytes = _parts(order, panels * runs)
    begins[1:] = np.cumsum(is_step.sum(axis=1).reshape(panels * runs, windows).sum(axis=1))
    bytes[:] = np.maximum(places, 0)
    bytes[:, 0] += WINDOW * ((number == 0) & (of_window % windows > 0)).astype(np.uint8)
    filter = np.ascontiguousarray(filter.transpose(1, 0, 2))
    return PairedWeights(filter.reshape(len(places), block * FACTORS), order)


def _parts(order: Array, runs: int) -> tuple[Array, Array]:
    """Return views of where the *runs* of an *order* begin, and of the bytes of its steps."""
    begins, steps = np.split(order, [runs + 1])
    return begins, steps.view(np.uint8).reshape(len(steps), FACTORS)


def unpaired(weights: PairedWeights, depth: int, runs: int, run: int) -> Array:
    """Return what :func:`paired` made *weights* of, ``[depth, runs, run]``, as int64."""
    block = weights.filter.shape[1] // FACTORS
    panels = -(-depth // block)
    begins, bytes = _parts(weights.order, panels * runs)
    counts = np.diff(begins)
    moved = np.cumsum(bytes[:, 0] & WINDOW, dtype=np.int64)
    before = np.concatenate([[0], moved])[begins[:-1]]  # what earlier runs moved on
    places = (moved - np.repeat(before, counts))[:, None] + bytes % WINDOW
    pane = np.repeat(np.arange(panels * runs), counts)[:, None]
    made = np.zeros((panels * runs, -(-run // WINDOW) * WINDOW, block), np.int64)
    factors = weights.filter.reshape(len(places), block, FACTORS).transpose(0, 2, 1)
    np.add.at(made, (pane, places), factors)
    made = made.reshape(panels, runs, made.shape[1], block)[:, :, :run]
    result: Array = made.transpose(0, 3, 1, 2).reshape(panels * block, runs, run)[:depth]
    return result


def _partners(panes: Array) -> Array:
    """Return which inputs fit each input of a window, as bits: ``[windows, 16]`` of uint16.

    Args:
        panes: Weights ``[block, windows, 16]``.
    """
    windows = panes.shape[1]
    found = np.zeros((WINDOW, windows), np.uint16)
    wide = np.ascontiguousarray(panes.transpose(2, 0, 1)).astype(np.int16)
    signs = [np.maximum(sign * wide, 0).astype(np.uint8) for sign in (1, -1)]
    rests = [np.uint8(LARGEST_PAIR) - part for part in signs]
    for i, j in combinations(range(WINDOW), 2):
        fits = np.ones(windows, np.bool_)
        for part, rest in zip(signs, rests, strict=True):
            fits &= (part[i] <= rest[j]).all(axis=0)
        found[i] |= fits * np.uint16(1 << j)
        found[j] |= fits * np.uint16(1 << i)
    return np.ascontiguousarray(found.T)


def _pairs(partners: Array, free: Array) -> Array:
    """Return pairs of the inputs that are *free*, ``[windows, 16, 2]``, with none behind them.

    The input that fits the fewest others comes first, and takes the one that fits the fewest.
    """
    windows, bits = np.arange(len(free)), np.uint16(1) << np.arange(WINDOW, dtype=np.uint16)
    pairs = np.full((len(free), WINDOW, 2), NONE)
    left = (free * bits).sum(axis=1, dtype=np.uint16)
    for number in range(WINDOW):
        if not left.any():
            break
        partners = partners & left[:, None]
        degrees = BIT_COUNTS[partners]
        first = np.where(left[:, None] & bits, degrees, WINDOW).argmin(axis=1)
        others = partners[windows, first]
        second = np.where(others[:, None] & bits, degrees, WINDOW).argmin(axis=1)
        pairs[:, number, 0] = np.where(left > 0, first, NONE)
        pairs[:, number, 1] = np.where((left > 0) & (others > 0), second, NONE)
        left &= ~(bits[first] | np.where(others > 0, bits[second], np.uint16(0)))
    return pairs
