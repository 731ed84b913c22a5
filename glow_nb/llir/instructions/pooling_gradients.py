"""Gradients of pools over windows, channels last."""

from __future__ import annotations

from glow_nb.hlir.ops import pooling_gradients as nodes
from glow_nb.llir.instructions.derived import derive_instruction

MaxPoolGradientInst = derive_instruction(nodes.MaxPoolGradient)
