"""The weights that lie side by side so that pairs of products of bytes never saturate.

``vpmaddubsw`` multiplies unsigned bytes by signed ones and adds the products of neighbours, in 16
bits: what is larger becomes the largest number. Sums of two products with any bytes fit if the
positive ones of the two weights are at most 128 together, and so the negative ones: 255 * 128 =
32640. Of ResNet50's convolutions of 1 x 1 taps, 28 % of the vectors of 8 output channels and 4
inputs hold a pair that does not fit.

So weights are *paired* anew for each panel of output channels: of the 16 inputs of a *window*, any
two may be neighbours, as the kernel shuffles the bytes of a window when it loads them. Two inputs
can be a pair if their weights fit in all channels of the panel. An input that finds no other is
paired with a weight of zero. Two pairs are a *step* of a sum.

The *order* tells what each step takes: a number of 16 bits, of which each four are the place of a
factor within the window, the first in the lowest. If the first place is above the second one, the
step is the first of the next window, which lies 16 inputs further on; that the places of a pair may
come in either order leaves room for this.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from glow_nb.base.types import Array

WINDOW = 16
"""Neighbouring inputs of which a step takes any: what one shuffle of bytes reaches."""

PLACE_BITS = 4
"""Bits that hold the place of an input within its window."""

STEP_INPUTS = 4
"""Inputs that a step multiplies: two pairs."""

LARGEST_PAIR = 128
"""What the weights of one sign of a pair may be together."""

MOST_BYTES = 1 << 20
"""Weights that are paired at a time, which takes several times their memory."""

ROOM = 8
"""Elements behind an order: kernels read the numbers of steps in whole vectors."""

NONE = -1
"""Sentinel: no input."""

BIT_COUNTS = np.unpackbits(np.arange(1 << WINDOW, dtype=np.uint16)[:, None].view(np.uint8), axis=1)
BIT_COUNTS = BIT_COUNTS.sum(axis=1, dtype=np.uint8)
"""How many bits are set in each number of 16 bits."""


@dataclass(frozen=True)
class PairedWeights:
    """The weights of a convolution in steps.

    Attributes:
        filter: ``[steps, block * 4]`` of int8: of each output channel of a panel four weights.
        order: Of int32, ``[order_size(panels * runs, steps)]``: where the steps of each run of each
            panel begin, and where the last ones end; then the numbers of the steps, two in each
            element, and room after them.
    """

    filter: Array
    order: Array


def order_size(runs: int, steps: int) -> int:
    """Return the elements of the order of *steps* steps in the *runs* of all panels."""
    return runs + 1 + -(-steps // 2) + ROOM


def most_steps(windows: int) -> int:
    """Return the steps of a run of *windows* windows if all inputs are paired with a zero."""
    return windows * 2 * WINDOW // STEP_INPUTS


def fewest_steps(depth: int, block: int, runs: int, run: int) -> int:
    """Return the steps of *depth* channels in panels of *block* if any two inputs could be a pair.

    Each has *runs* runs of *run* inputs.
    """
    return -(-depth // block) * runs * -(-run // STEP_INPUTS)


def paired(weights: Array, block: int) -> PairedWeights:
    """Return int8 *weights* ``[depth, runs, run]`` in panels of *block* channels and in steps."""
    depth, runs, run = weights.shape
    panel_bytes = block * runs * -(-run // WINDOW) * WINDOW
    size = max(1, MOST_BYTES // max(1, panel_bytes)) * block
    if depth <= size:
        return _paired(weights, block)
    pieces = [weights[first : first + size] for first in range(0, depth, size)]
    parts = [_paired(piece, block) for piece in pieces]
    return _joined(parts, [-(-len(piece) // block) * runs for piece in pieces])


def _joined(parts: Sequence[PairedWeights], runs: Sequence[int]) -> PairedWeights:
    """Return the weights of several *parts*, with this number of runs each, as one."""
    counts = [len(part.filter) for part in parts]
    views = [_views(*each) for each in zip((p.order for p in parts), runs, counts, strict=True)]
    order, begins, numbers = _new_order(sum(runs), sum(counts))
    ends = [part[1:] + before for (part, _), before in zip(views, _before(counts), strict=True)]
    begins[1:] = np.concatenate(ends)
    numbers[:] = np.concatenate([part for _, part in views])
    return PairedWeights(np.concatenate([part.filter for part in parts]), order)


def _before(counts: Sequence[int]) -> Array:
    """Return the sums of what comes before each of *counts*."""
    return np.cumsum([0, *counts[:-1]])


def _paired(weights: Array, block: int) -> PairedWeights:
    depth, runs, run = weights.shape
    panels, windows = -(-depth // block), -(-run // WINDOW)
    pads = ((0, panels * block - depth), (0, 0), (0, windows * WINDOW - run))
    panes = np.pad(weights, pads).reshape(panels, block, runs, windows, WINDOW)
    panes = np.ascontiguousarray(panes.transpose(1, 0, 2, 3, 4))
    panes = panes.reshape(block, panels * runs * windows, WINDOW)
    used = np.arange(windows * WINDOW).reshape(windows, WINDOW) < run
    pairs = _pairs(_partners(panes), np.tile(used, (panels * runs, 1)))
    steps = pairs.reshape(len(pairs), most_steps(1), STEP_INPUTS)
    is_step = (steps != NONE).any(axis=2)
    of_window, number = np.nonzero(is_step)  # in the order of windows, then of steps
    inputs = steps[of_window, number]
    places = _turned(inputs, (number == 0) & (of_window % windows > 0))
    filter = panes[:, of_window[:, None], np.maximum(inputs, 0)]
    filter = np.where(inputs == NONE, np.int8(0), filter)  # [block, steps, factors]
    order, begins, numbers = _new_order(panels * runs, len(places))
    begins[1:] = np.cumsum(is_step.sum(axis=1).reshape(panels * runs, windows).sum(axis=1))
    numbers[:] = (places << PLACE_BITS * np.arange(STEP_INPUTS)).sum(axis=1)
    filter = np.ascontiguousarray(filter.transpose(1, 0, 2))
    return PairedWeights(filter.reshape(len(places), block * STEP_INPUTS), order)


def _turned(inputs: Array, is_next: Array) -> Array:
    """Turn the first pair of each step of *inputs*, in place, as *is_next* asks; return places.

    The place of no input is any that fits.
    """
    first, second = inputs[:, 0], inputs[:, 1]  # views
    is_single = second == NONE
    partner = np.where(is_next, np.where(first == 0, 1, 0), first)
    pair = np.stack([first, np.where(is_single, partner, second)], axis=1)
    turns = (pair[:, 0] > pair[:, 1]) != is_next
    inputs[turns, :2] = inputs[turns, 1::-1]
    pair[turns] = pair[turns, ::-1]
    return np.concatenate([pair, np.maximum(inputs[:, 2:], 0)], axis=1)


def _new_order(runs: int, steps: int) -> tuple[Array, Array, Array]:
    """Return an order of zeros and its :func:`_views`."""
    order = np.zeros(order_size(runs, steps), np.int32)
    return order, *_views(order, runs, steps)


def _views(order: Array, runs: int, steps: int) -> tuple[Array, Array]:
    """Return views of where the *runs* of an *order* begin, and of the numbers of its *steps*."""
    return order[: runs + 1], order[runs + 1 :].view(np.uint16)[:steps]


def _decoded(numbers: Array) -> tuple[Array, Array]:
    """Return the places of steps ``[steps, 4]``, and which of them begin the next window."""
    places = numbers.astype(np.int64)[:, None] >> PLACE_BITS * np.arange(STEP_INPUTS)
    places &= WINDOW - 1
    return places, places[:, 0] > places[:, 1]


def unpaired(weights: PairedWeights, depth: int, runs: int, run: int) -> Array:
    """Return what :func:`paired` made *weights* of, ``[depth, runs, run]``, as int64."""
    block = weights.filter.shape[1] // STEP_INPUTS
    panels = -(-depth // block)
    begins, numbers = _views(weights.order, panels * runs, len(weights.filter))
    counts, (places, is_next) = np.diff(begins), _decoded(numbers)
    moved = WINDOW * np.cumsum(is_next)
    before = np.concatenate([[0], moved])[begins[:-1]]  # what earlier runs moved on
    places += (moved - np.repeat(before, counts))[:, None]
    pane = np.repeat(np.arange(panels * runs), counts)[:, None]
    made = np.zeros((panels * runs, -(-run // WINDOW) * WINDOW, block), np.int64)
    factors = weights.filter.reshape(len(places), block, STEP_INPUTS).transpose(0, 2, 1)
    np.add.at(made, (pane, places), factors)
    made = made.reshape(panels, runs, made.shape[1], block)[:, :, :run]
    result: Array = made.transpose(0, 3, 1, 2).reshape(panels * block, runs, run)[:depth]
    return result


def fault_of(order: Array, runs: int, steps: int, windows: int) -> str:
    """Return what is wrong with the *order* of *steps* in *runs* of *windows* windows, or nothing.

    A kernel reads where it tells.
    """
    begins, numbers = _views(order, runs, steps)
    if begins[0] != 0 or begins[-1] != steps or (np.diff(begins) < 0).any():
        return f"begins of runs must ascend from 0 to {steps}"
    if np.diff(begins).max(initial=0) > most_steps(windows):
        return f"a run of {windows} windows has at most {most_steps(windows)} steps"
    moved = np.concatenate([[0], np.cumsum(_decoded(numbers)[1])])[begins]
    if np.diff(moved).max(initial=0) >= windows:
        return f"a run has {windows} windows, but more are read"
    return ""


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
    """Return pairs of the inputs that are *free*, ``[windows, 16, 2]``, with none after them.

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
