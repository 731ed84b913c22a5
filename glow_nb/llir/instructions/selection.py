"""Choosing some of many; how many is a result of its own."""

from __future__ import annotations

from glow_nb.hlir.ops import selection as nodes
from glow_nb.llir.instructions.derived import derive_instruction

NonZeroInst = derive_instruction(nodes.NonZero, results=("places", "count"))
UniqueInst = derive_instruction(nodes.Unique, results=("indices", "inverse", "counts", "number"))
NonMaxSuppressionInst = derive_instruction(nodes.NonMaxSuppression, results=("places", "count"))
