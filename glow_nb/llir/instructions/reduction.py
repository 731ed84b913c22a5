"""Reductions over axes, running sums and selection of extremes."""

from __future__ import annotations

from dataclasses import dataclass

from glow_nb.hlir.ops import reduction as nodes
from glow_nb.llir.instructions.node_instruction import NodeInstruction, UnaryInstruction
from glow_nb.llir.program import In, Out, define_instruction


@dataclass(frozen=True, eq=False, repr=False)
class ReductionInstruction(UnaryInstruction):
    """``dest = reduce(input)`` over *axes*, which stay as dimensions of 1 with *keep_dims*."""

    axes: tuple[int, ...]
    keep_dims: bool


@define_instruction("reduce_sum", node=nodes.ReduceSum)
class ReduceSumInst(ReductionInstruction):
    """``dest = sum(input)`` over *axes*."""


@define_instruction("reduce_mean", node=nodes.ReduceMean)
class ReduceMeanInst(ReductionInstruction):
    """``dest = sum(input) / count`` over *axes*."""


@define_instruction("reduce_max", node=nodes.ReduceMax)
class ReduceMaxInst(ReductionInstruction):
    """``dest = max(input)`` over *axes*; NaN if any element is."""


@define_instruction("reduce_min", node=nodes.ReduceMin)
class ReduceMinInst(ReductionInstruction):
    """``dest = min(input)`` over *axes*; NaN if any element is."""


@define_instruction("reduce_prod", node=nodes.ReduceProd)
class ReduceProdInst(ReductionInstruction):
    """``dest = product(input)`` over *axes*."""


@dataclass(frozen=True, eq=False, repr=False)
class ArgInstruction(UnaryInstruction):
    """The int64 index of an extreme along *axis*; among equals the first, or the last."""

    axis: int
    keep_dims: bool
    select_last: bool


@define_instruction("arg_max", node=nodes.ArgMax)
class ArgMaxInst(ArgInstruction):
    """``dest`` is the index of the largest element along *axis*."""


@define_instruction("arg_min", node=nodes.ArgMin)
class ArgMinInst(ArgInstruction):
    """``dest`` is the index of the smallest element along *axis*."""


@define_instruction("cum_sum", node=nodes.CumSum)
class CumSumInst(UnaryInstruction):
    """``dest[i]`` is the sum of ``input[0..i]`` along *axis*.

    *exclusive* leaves ``input[i]`` out; *reverse* sums from the other end.
    """

    axis: int
    exclusive: bool
    reverse: bool


@define_instruction("top_k", node=nodes.TopK)
class TopKInst(NodeInstruction):
    """The *k* largest or smallest elements along *axis* and their int64 indices."""

    values: Out
    indices: Out
    input: In
    k: int
    axis: int
    largest: bool
    sorted: bool
