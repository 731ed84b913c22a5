"""Estimated time of channel-wise convolutions in groups of factors."""

from __future__ import annotations

from glow_nb.kernels.products.channel_wise_plan import ChannelWisePlan

DOT_CYCLES, GROUPING_CYCLES = 0.28, 0.58
"""Of the products of a vector of channels with a group of factors,
and of each vector of the input that is loaded, or stored to scratch in such groups. The 37 of
MobileNetV2 and ShuffleNet, with their epilogues, take 0.9 to 1.6 times the estimate on one Zen 5
core with 16 lanes; 33 of them 0.9 to 1.15 times."""


def channel_wise_cycles(plan: ChannelWisePlan) -> float:
    """Return the estimated cycles of a channel-wise convolution in groups of factors.

    They are those of its products, for which each vector of factors is loaded, and of the lines of
    the input that are copied to scratch, each once.
    """
    shape, groups, temporaries = plan.shape, plan.groups, plan.kinds.form.temporaries
    lines, vectors = shape.batch * shape.output[0], -(-shape.depth // plan.lanes)
    outputs = -(-shape.output[1] // groups.phases)
    tiles = -(-shape.output[1] // plan.rows)
    entries = lines * vectors * shape.kernel[0] * len(groups.entries)
    dots = entries * (outputs * (1 + temporaries) + tiles)  # and the weights of each tile
    copied = shape.batch * min(shape.needed[0], shape.output[0] * shape.reach[0])
    groups_of_line = plan.steps * -(-shape.depth // plan.copied)
    copies = copied * groups_of_line * (plan.seen + groups.parts)
    return DOT_CYCLES * dots + GROUPING_CYCLES * copies
