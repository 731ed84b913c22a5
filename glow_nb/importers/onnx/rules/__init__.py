"""Import rules, one file a family; importing this package registers them all."""

from glow_nb.importers.onnx.rules import (
    arithmetic,
    constants,
    control,
    convolution,
    einsum,
    elementwise,
    indexing,
    loops,
    matrix,
    normalization,
    pooling,
    quantization,
    recurrent,
    reduction,
    resize,
    shape,
)

__all__ = [
    "arithmetic",
    "constants",
    "control",
    "convolution",
    "einsum",
    "elementwise",
    "indexing",
    "loops",
    "matrix",
    "normalization",
    "pooling",
    "quantization",
    "recurrent",
    "reduction",
    "resize",
    "shape",
]
