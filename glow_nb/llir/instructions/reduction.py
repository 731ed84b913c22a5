"""Reductions over axes, running sums and selection of extremes."""

from __future__ import annotations

from glow_nb.hlir.ops import reduction as nodes
from glow_nb.llir.instructions.derived import derive_instruction

ReduceSumInst = derive_instruction(nodes.ReduceSum)
ReduceMeanInst = derive_instruction(nodes.ReduceMean)
ReduceMaxInst = derive_instruction(nodes.ReduceMax)
ReduceMinInst = derive_instruction(nodes.ReduceMin)
ReduceProdInst = derive_instruction(nodes.ReduceProd)
ArgMaxInst = derive_instruction(nodes.ArgMax)
ArgMinInst = derive_instruction(nodes.ArgMin)
CumSumInst = derive_instruction(nodes.CumSum)
TopKInst = derive_instruction(nodes.TopK, results=("values", "indices"))
