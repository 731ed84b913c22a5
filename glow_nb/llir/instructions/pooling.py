"""Pooling over windows, channels last."""

from __future__ import annotations

from glow_nb.hlir.ops import pooling as nodes
from glow_nb.llir.instructions.derived import derive_instruction

MaxPoolInst = derive_instruction(nodes.MaxPool)
MaxPoolWithArgmaxInst = derive_instruction(nodes.MaxPoolWithArgmax, results=("values", "indices"))
AvgPoolInst = derive_instruction(nodes.AvgPool)
