"""Convolutions whose channels are the lanes of their kernels: the operators that carry them out."""

from __future__ import annotations

from dataclasses import replace

from glow_nb.backends.cpu.integer_products import (
    with_unsigned_left,
)
from glow_nb.base.dot_instruction import dot_named_by
from glow_nb.base.plan import Plan
from glow_nb.hlir.graph import Value
from glow_nb.hlir.ops import Convolution, Pad
from glow_nb.hlir.rewrite import Rewriter
from glow_nb.kernels.operators import (
    ChannelWiseConvolution,
    DepthwiseConvolution,
    GroupedConvolution,
)
from glow_nb.kernels.operators.channel_wise import pack_taps, tap_groups
from glow_nb.kernels.operators.panels import pack_depthwise_filter, pack_grouped_filter


def emit_lanes(plan: Plan, node: Convolution, rewriter: Rewriter) -> Value:
    """Emit *node*, whose channels are the lanes, factor by factor; *plan* may have loops."""
    form: type[DepthwiseConvolution | GroupedConvolution] = GroupedConvolution
    pack = pack_grouped_filter
    if node.group == node.input.type.shape[-1]:
        form, pack = DepthwiseConvolution, pack_depthwise_filter
    node = _padded_before(node, rewriter)
    return rewriter.emit(
        form(
            node.input,
            pack(rewriter, node.filter),
            node.bias,
            **node.window.attributes,
            wide=node.wide,
            predicate=node.predicate,
            plan=plan if plan.settings else None,
        )
    )


def _padded_before(node: Convolution, rewriter: Rewriter) -> Convolution:
    """Return *node* for a kernel that pads with zeros alone: other cells are put there before."""
    if not node.pad_value:
        return node
    rank = len(node.kernel)
    around = (0, *node.pads[:rank], 0, 0, *node.pads[rank:], 0)
    input = rewriter.emit(Pad(node.input, around, value=float(node.pad_value)))
    return replace(node, input=input, pads=(0,) * 2 * rank, pad_value=0)


def emit_steps(plan: Plan, node: Convolution, rewriter: Rewriter) -> Value:
    """Emit *node*, whose channels are the lanes, in the groups that *plan* says."""
    dot = dot_named_by(plan)
    input, bias, raised = with_unsigned_left(node, dot, rewriter)
    assert bias is not None  # convolutions have one
    size = node.filter.type.shape[-1]
    groups = tap_groups(node.kernel, node.stride, node.dilation, size, dot.group)
    assert groups is not None, "suits_steps"
    return rewriter.emit(
        ChannelWiseConvolution(
            input,
            pack_taps(rewriter, node.filter, groups),
            bias,
            **node.window.attributes,
            size=size,
            pad_value=node.pad_value + raised,
            predicate=node.predicate,
            plan=plan,
        )
    )
