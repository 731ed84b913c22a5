"""The instructions, one file a family, named like the files of :mod:`glow_nb.hlir.ops`.

Importing this package registers those that have a class of their own. Those of operators with a
formula are derived (:mod:`glow_nb.llir.instructions.derived`).
"""

from __future__ import annotations

from glow_nb.llir.instructions import (
    attention,
    columns_to_image,
    derived,
    fourier,
    gather,
    grid_sample,
    matrix,
    normalization,
    pooling,
    pooling_gradients,
    profile,
    random,
    recurrence,
    reduction,
    regions,
    scatter,
    selection,
    shape,
    sizes,
)

__all__ = [
    "attention",
    "columns_to_image",
    "derived",
    "fourier",
    "gather",
    "grid_sample",
    "matrix",
    "normalization",
    "pooling",
    "pooling_gradients",
    "profile",
    "random",
    "recurrence",
    "reduction",
    "regions",
    "scatter",
    "selection",
    "shape",
    "sizes",
]
