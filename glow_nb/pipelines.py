"""The pipelines as data, with the reason beside each line."""

from __future__ import annotations

from glow_nb.passes import Pipeline, Repeat

INFERENCE: Pipeline = (
    "eliminate_dead_nodes",  # an importer may leave nodes that nothing reads
    "fold_constants",  # weights that are computed become plain weights
    Repeat(
        (
            "sink_transposes",  # layout changes meet their inverses and cancel
            "eliminate_noops",  # what is left of them moves nothing
            "fold_batch_normalization",  # now that it stands right behind its convolution
            "fold_constants",  # transposed and scaled weights
            "eliminate_common_nodes",
            "eliminate_dead_nodes",
        ),
        limit=20,
    ),
)
"""Graph passes for inference, run before and again after lowering."""

INSTRUCTIONS: Pipeline = (
    "eliminate_dead_stores",
    "stack_instructions",  # elementwise work rides on the kernel that makes its operand
    "shrink_lifetimes",  # the allocator sees the shortest lifetimes that are right
)
"""Instruction passes, run before allocation."""
