"""The pools among ONNX's node tests, computed at once: ONNX's own loop takes most of their time."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from onnx.reference.ops import op_pool_common

from glow_nb.base.types import Array
from glow_nb.tools.conformance import node_tests

QUICK_POOLS = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:12]
"""What this file says: node tests that were kept are those of another one no more."""


def quick_node_tests() -> list[Any]:
    """Return ONNX's own node tests; ``test_conformance.py`` compares the pools with ONNX's.

    ONNX computes what its tests expect when these are imported, which is once in a process: whoever
    asks for them afterwards gets the same ones.
    """
    with patch.object(op_pool_common, "pool", quick_pool):
        return node_tests()


def quick_pool(
    padded: Array,
    x_shape: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int] | None,
    out_shape: Sequence[int],
    pooling_type: str,
    pads_required: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    count_include_pad: int = 0,
    p: int = 1,
) -> Array:
    """Return the pool of *padded*, images of *x_shape* with pixels around them.

    A window has the pixels of the image and of its *pads*; what lies beyond these never counts, and
    without *count_include_pad* what is NaN does not. The arguments are those of ONNX's function.
    """
    rank = len(kernel)
    strides, dilations = strides or [1] * rank, [1] * rank if dilations is None else dilations
    pads = [0] * (2 * rank) if pads is None else list(pads) * (2 * rank if len(pads) == 1 else 1)
    counts = np.ones(padded.shape, bool) if count_include_pad else ~np.isnan(padded)
    for axis in range(rank):
        end = x_shape[axis + 2] + pads[axis] + pads[axis + rank]
        np.moveaxis(counts, axis + 2, 0)[end:] = False
    beyond = [(0, 0)] * 2 + [(0, max(kernel) * max(dilations))] * rank
    sizes = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    begins = (slice(0, n * s, s) for n, s in zip(out_shape, strides, strict=True))
    chosen: Any = (..., *begins, *(slice(None, None, d) for d in dilations))

    def windows(array: Array, other: float) -> Array:
        """Return the windows, one axis for their pixels; those that do not count are *other*."""
        whole = np.pad(np.where(counts, array, other), beyond, constant_values=other)
        views = sliding_window_view(whole, sizes, tuple(range(2, 2 + rank)))
        pixels: Array = views[chosen].reshape(*x_shape[:2], *out_shape, -1)
        return pixels

    if pooling_type == "MAX":
        result = windows(padded, -np.inf).max(-1)
    elif pooling_type == "LPPOOL":
        result = (np.abs(windows(padded, 0)) ** p).sum(-1) ** (1.0 / p)
    else:
        result = windows(padded, 0).sum(-1) / windows(np.ones_like(padded), 0).sum(-1)
    made: Array = result.astype(padded.dtype)
    return made
