"""Write batch normalizations in training mode as moments and the form for inference."""

from __future__ import annotations

import warnings

from glow_nb.base.errors import GlowWarning
from glow_nb.hlir.graph import Function
from glow_nb.hlir.ops.batch_norm_training import BatchNormTraining, by_moments
from glow_nb.hlir.passes import register_pass
from glow_nb.hlir.rewrite import Replacement, Rewriter, rewrite
from glow_nb.hlir.rounding import in_float32, reads_or_makes_narrow


@register_pass
def lower_batch_norm_training(function: Function) -> Function:
    """Replace it by moments and a batch normalization in inference form, which other passes
    optimize.

    ::

        %y, ... = batch_norm_training(%x, %scale, ...) ->
        %m = moments(%x)
        %y = batch_normalization(%x, %scale, %bias, %m#0, %m#1)

    If nothing reads the running statistics, a :class:`GlowWarning` says that they are not used: a
    model that was exported in training mode by mistake gives results that depend on the other
    samples of the batch.
    """
    read = function.users()
    for node in function.nodes:
        if isinstance(node, BatchNormTraining) and not any(r in read for r in node.results[1:]):
            _warn(node)
    wide = rewrite(function, _widened, BatchNormTraining)
    return rewrite(wide, by_moments, BatchNormTraining)


def _warn(node: BatchNormTraining) -> None:
    warnings.warn(
        f"{node.name!r} (batch normalization): the model says that it trains, so it normalizes by "
        "the statistics of each batch, as ONNX has it, and the running mean and variance are not "
        "used; export the model in its evaluation mode, or train it: what Trainer.freeze returns "
        "uses them",
        GlowWarning,
        stacklevel=2,
    )


def _widened(node: BatchNormTraining, rewriter: Rewriter) -> Replacement:
    """Compute on float32 what would round each moment to 16 bits."""
    return in_float32(node, rewriter) if reads_or_makes_narrow(node) else None
