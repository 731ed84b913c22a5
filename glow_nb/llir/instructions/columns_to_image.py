"""Columns that are added up in an image."""

from __future__ import annotations

from glow_nb.hlir.ops import columns_to_image as nodes
from glow_nb.llir.instructions.derived import derive_instruction

ColumnsToImageInst = derive_instruction(nodes.ColumnsToImage)
