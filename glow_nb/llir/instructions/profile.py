"""Counting the numbers of a tensor."""

from __future__ import annotations

from glow_nb.hlir.ops import profile as nodes
from glow_nb.llir.instructions.derived import derive_instruction

ProfileInst = derive_instruction(nodes.Profile, results=("counted", "limits"))
