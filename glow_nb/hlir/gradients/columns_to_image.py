"""Gradients of columns that are added up in an image: those of what this lowers to."""

from __future__ import annotations

from glow_nb.hlir.backpropagate import through_lowering
from glow_nb.hlir.ops.columns_to_image import ColumnsToImage
from glow_nb.hlir.rules import gradient

gradient(ColumnsToImage)(through_lowering)
