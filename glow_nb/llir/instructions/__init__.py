"""The instructions, one file a family, named like the files of :mod:`glow_nb.hlir.ops`.

Importing this package registers all of them. A data-parallel one says in ``scalar`` what it does to
one element; :mod:`glow_nb.llir.scalar` defines the vocabulary and parses it.
"""

from __future__ import annotations

from glow_nb.llir.instructions import (
    activation,
    arithmetic,
    comparison,
    convolution,
    elementwise,
    gather,
    matrix,
    normalization,
    pooling,
    reduction,
    regions,
    scatter,
    selection,
    shape,
)

__all__ = [
    "activation",
    "arithmetic",
    "comparison",
    "convolution",
    "elementwise",
    "gather",
    "matrix",
    "normalization",
    "pooling",
    "reduction",
    "regions",
    "scatter",
    "selection",
    "shape",
]
