"""Estimated time of channel-wise convolutions in groups of factors."""

from __future__ import annotations

from glow_nb.kernels.products.channel_wise_plan import ChannelWisePlan
from glow_nb.kernels.target import Target


def channel_wise_cycles(plan: ChannelWisePlan, target: Target) -> float:
    """Return the estimated cycles of a channel-wise convolution in groups of factors.

    They are those of its products, for which each vector of factors is loaded, and of the lines of
    the input that are copied to scratch, each once.
    """
    shape, groups, temporaries = plan.shape, plan.groups, plan.kinds.dot.temporaries
    lines, vectors = shape.batch * shape.output[0], -(-shape.depth // plan.lanes)
    outputs = -(-shape.output[1] // groups.phases)
    tiles = -(-shape.output[1] // plan.rows)
    entries = lines * vectors * shape.kernel[0] * len(groups.entries)
    dots = entries * (outputs * (1 + temporaries) + tiles)  # and the weights of each tile
    copied = shape.batch * min(shape.needed[0], shape.output[0] * shape.reach[0])
    groups_of_line = plan.steps * -(-shape.depth // plan.copied)
    copies = copied * groups_of_line * (plan.seen + groups.parts)
    machine = target.machine
    return machine.channel_wise_dot_cycles * dots + machine.channel_wise_copy_cycles * copies
