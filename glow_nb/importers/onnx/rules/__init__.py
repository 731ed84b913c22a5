"""Import rules, one file a family; importing this package registers them all."""

from glow_nb.importers.onnx.rules import (
    arithmetic,
    constants,
    control,
    convolution,
    elementwise,
    indexing,
    matrix,
    normalization,
    pooling,
    reduction,
    shape,
)

__all__ = [
    "arithmetic",
    "constants",
    "control",
    "convolution",
    "elementwise",
    "indexing",
    "matrix",
    "normalization",
    "pooling",
    "reduction",
    "shape",
]
