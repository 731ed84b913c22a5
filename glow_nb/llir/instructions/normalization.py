"""Normalizations and softmax, for backends that do not want them lowered."""

from __future__ import annotations

from glow_nb.hlir.ops import normalization as nodes
from glow_nb.hlir.ops.group_normalization import GroupNormalization
from glow_nb.llir.instructions.derived import derive_instruction

LocalResponseNormalizationInst = derive_instruction(nodes.LocalResponseNormalization)
LayerNormalizationInst = derive_instruction(nodes.LayerNormalization)
GroupNormalizationInst = derive_instruction(GroupNormalization)
SoftmaxInst = derive_instruction(nodes.Softmax)
LogSoftmaxInst = derive_instruction(nodes.LogSoftmax)
