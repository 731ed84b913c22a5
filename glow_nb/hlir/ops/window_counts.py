"""The number of cells that the windows of an average pool count, if sizes are open."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from glow_nb.base.types import ElementKind, TensorType
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Value
from glow_nb.hlir.ops.broadcast import Broadcast
from glow_nb.hlir.ops.convolution import Convolution
from glow_nb.hlir.ops.families import splat
from glow_nb.hlir.ops.shape import Pad
from glow_nb.hlir.ops.sizes import size_value


def emit_counts(pool: Any, spatial: tuple[int, ...], kind: ElementKind, builder: Builder) -> Value:
    """Emit how many cells each window of *pool* over *spatial* sizes counts, ``[1, *out, 1]``.

    One number, ``[1, ..., 1]``, stands for all windows that count all of their cells. What counts
    is as in :func:`~glow_nb.hlir.ops.pooling.counted_cells`: the numbers are sums of ones.
    """
    rank, window = len(spatial), pool.window
    type = TensorType(kind, (1,) * (rank + 2))
    skipped = pool.uncounted or (0,) * rank
    if not pool.is_padded or (pool.count_padding and not any(skipped)):
        return size_value(builder, type, prod(pool.kernel), "count")
    ones: Value = builder.emit(Broadcast(splat(builder, type, 1, "one"), (1, *spatial, 1)))
    if pool.count_padding:
        begins, ends = window.pads[:rank], window.pads[rank:]
        counted = (end - n for end, n in zip(ends, skipped, strict=True))
        ones = builder.emit(Pad(ones, (0, *begins, 0, 0, *counted, 0), value=1.0))
        window = replace(window, pads=(*(0,) * rank, *skipped))
    return builder.emit(
        Convolution(
            ones,
            builder.constant("ones", np.ones((1, *pool.kernel, 1), kind.dtype), is_weight=False),
            builder.constant("zero", np.zeros(1, kind.dtype), is_weight=False),
            **window.attributes,
        )
    )
