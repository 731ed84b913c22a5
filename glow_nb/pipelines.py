"""The pipelines as data, with the reason beside each line."""

from __future__ import annotations

from glow_nb.passes import Pipeline, Repeat

INFERENCE: Pipeline = (
    "eliminate_dead_nodes",  # an importer may leave nodes that nothing reads
    "fold_constants",  # weights that are computed become plain weights
    "eliminate_common_nodes",  # patterns are found by the identity of their operands
    Repeat(
        (
            "sink_transposes",  # layout changes meet their inverses and cancel
            "sink_reshapes",  # so do reshapes; elementwise work moves up to what it rides on
            "sink_broadcasts",  # elementwise operators repeat by themselves
            "eliminate_noops",  # what is left of them moves nothing
            "merge_concats",  # a tensor is put together once
            "gathers_to_slices",  # slices cost nothing where strides allow
            "merge_slices",  # after the gathers that have become slices
            "merge_conversions",  # exporters convert there and back
            "simplify_arithmetic",  # one way to write a thing, before it is looked for
            "simplify_reductions",  # what reduces nothing is a reshape, which sinks
            "merge_clips",  # one bound after another is one pass over the numbers
            "raise_softmax",  # what exporters write out has one kernel
            "raise_gelu",
            "raise_leaky_relu",
            "raise_swish",
            "raise_layer_normalization",  # lowers to fewer, and cheaper, operators than it was
            "fold_pads",  # a convolution pads in its scratch rows, without a copy
            "trim_windows",  # and sees not only padding
            "fold_batch_normalization",  # now that it stands right behind its convolution
            "fold_scales_into_products",  # the same for dense layers
            "fold_scales_into_next_convolution",  # what nothing before could take
            "sink_channel_shuffles",  # a shuffle ends in the weights of what reads it
            "hoist_channel_gathers",  # and a gather in the weights of what makes it
            "hoist_slices",  # rows that nothing reads are not computed
            "sink_scales",  # a scale rides on the product that follows
            "raise_fully_connected",  # after scales, which a product alone takes, too
            "merge_products",  # narrow ones, once they are written alike
            "single_rows_to_sums",  # what would be transposed to be read once
            "transpose_weights",  # the transposes that no sinking could cancel
            "fold_constants",  # transposed and scaled weights
            "eliminate_common_nodes",  # what has become the same, weights included
            "eliminate_dead_nodes",  # what all the replacements have left behind
        ),
        limit=20,
    ),
)
"""Graph passes for inference, run before and again after lowering."""

INSTRUCTIONS: Pipeline = (
    "eliminate_dead_stores",
    "peephole",  # a simpler instruction carries more
    "stack_instructions",  # elementwise work rides on the kernel that makes its operand
    "peephole",  # a copy that rides alone is no work
    "eliminate_slices",  # what elementwise work has not drawn in is read where it was cut from
    "eliminate_copies",  # a concat's parts are made in their places
    "schedule_instructions",  # what is live when depends on where a value is made
    "share_buffers",  # now that every value is where it stays
    "shrink_lifetimes",  # the allocator sees the shortest lifetimes that are right
)
"""Instruction passes, run before allocation."""
