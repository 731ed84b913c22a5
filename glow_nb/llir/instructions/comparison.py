"""Comparisons, whose results are bools, and the choice between two operands."""

from __future__ import annotations

from glow_nb.hlir.ops import comparison as nodes
from glow_nb.llir.instructions.node_instruction import (
    INPLACE_BINARY,
    BinaryInstruction,
    NodeInstruction,
)
from glow_nb.llir.program import In, Out, define_instruction


@define_instruction("equal", scalar="lhs == rhs", node=nodes.Equal)
class EqualInst(BinaryInstruction):
    """``dest = lhs == rhs``; false where either is NaN."""


@define_instruction("less", scalar="lhs < rhs", node=nodes.Less)
class LessInst(BinaryInstruction):
    """``dest = lhs < rhs``; false where either is NaN."""


@define_instruction("less_equal", scalar="lhs <= rhs", node=nodes.LessEqual)
class LessEqualInst(BinaryInstruction):
    """``dest = lhs <= rhs``; false where either is NaN."""


@define_instruction("greater", scalar="lhs > rhs", node=nodes.Greater)
class GreaterInst(BinaryInstruction):
    """``dest = lhs > rhs``; false where either is NaN."""


@define_instruction("greater_equal", scalar="lhs >= rhs", node=nodes.GreaterEqual)
class GreaterEqualInst(BinaryInstruction):
    """``dest = lhs >= rhs``; false where either is NaN."""


@define_instruction(
    "select", scalar="where(condition, lhs, rhs)", inplace=INPLACE_BINARY, node=nodes.Select
)
class SelectInst(NodeInstruction):
    """``dest = lhs`` where the bool *condition* is true, else ``rhs``; all three broadcast."""

    dest: Out
    condition: In
    lhs: In
    rhs: In
