"""Sampling at places that a tensor names."""

from __future__ import annotations

from glow_nb.hlir.ops import grid_sample as nodes
from glow_nb.llir.instructions.derived import derive_instruction

GridSampleInst = derive_instruction(nodes.GridSample)
