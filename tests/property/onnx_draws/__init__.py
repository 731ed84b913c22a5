"""Random ONNX models: for each operator, a recipe that draws a node of it."""

from __future__ import annotations

from tests.property.onnx_draws import (  # noqa: F401 - each registers its recipes
    attention,
    elementwise,
    indexing,
    moves,
    products,
    reductions,
    windows,
)
from tests.property.onnx_draws.drawing import RECIPES, Drawing, draw

__all__ = ["RECIPES", "Drawing", "draw"]
