"""The loops of recurrent layers over their steps, forwards and backwards."""

from __future__ import annotations

from glow_nb.hlir.ops import recurrence as nodes
from glow_nb.llir.instructions.derived import derive_instruction

RecurrenceInst = derive_instruction(nodes.Recurrence)
RecurrenceGradientInst = derive_instruction(nodes.RecurrenceGradient, results=("dest", "first"))
