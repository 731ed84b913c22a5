"""Choosing some of many; how many is a result of its own."""

from __future__ import annotations

from glow_nb.hlir.ops import selection as nodes
from glow_nb.llir.instructions.node_instruction import NodeInstruction
from glow_nb.llir.program import In, Out, define_instruction


@define_instruction("non_zero", node=nodes.NonZero)
class NonZeroInst(NodeInstruction):
    """The places of what is not zero, and how many there are."""

    places: Out
    count: Out
    input: In


@define_instruction("unique", node=nodes.Unique)
class UniqueInst(NodeInstruction):
    """The first occurrences of distinct rows, which one each row is, how often each occurs."""

    indices: Out
    inverse: Out
    counts: Out
    number: Out
    input: In
    sorted: bool


@define_instruction("non_max_suppression", node=nodes.NonMaxSuppression)
class NonMaxSuppressionInst(NodeInstruction):
    """The boxes that are the best of those around, and how many there are."""

    places: Out
    count: Out
    boxes: In
    scores: In
    overlap: In
    threshold: In
    limit: int
    is_centered: bool
