"""Batch normalization as it trains: by the statistics of the batch, which update running ones."""

from __future__ import annotations

from glow_nb.base.errors import GlowError
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Value
from glow_nb.hlir.ops.arithmetic import Add, Mul
from glow_nb.hlir.ops.families import splat
from glow_nb.hlir.ops.normalization import BatchNormalization, Moments
from glow_nb.hlir.ops.shape import Reshape


def normalize_by_batch(
    builder: Builder, node: BatchNormalization, *, is_unbiased: bool = True
) -> tuple[Value, Value, Value]:
    """Emit *node* as it trains; return its result, and the running mean and variance after it.

    The input is normalized by its own mean and variance, that of the population, as in ONNX and
    PyTorch. Those of *node* are the running ones, of which a step keeps the part ``momentum`` (ONNX
    has it so; PyTorch's momentum is what is left of 1)::

        running mean' = momentum * running mean + (1 - momentum) * mean of the batch

    and so for the variance. If *is_unbiased*, that of ``n`` elements a channel enters times
    ``n / (n - 1)``, as PyTorch has it: so it is no less than that of all data in the mean. ONNX's
    training mode has it as it is.

    Raises:
        GlowError: There is no unbiased variance, as each channel has less than two elements.
    """
    moments = builder.emit(Moments(node.input, node.summed_axes))
    if is_unbiased and moments.count < 2:
        raise GlowError(
            f"{node!r}: a batch of {node.input.type} has {moments.count} elements a channel, whose "
            "variance is unknown; train with two or more"
        )
    mean, variance = (
        builder.emit(Reshape(found, node.mean.type.shape)) for found in moments.results
    )
    result = builder.emit(node.copied(mean=mean, variance=variance, name=""), node.name)
    factor = moments.count / (moments.count - 1) if is_unbiased else 1.0
    return (
        result,
        _running(builder, node.mean, mean, node.momentum, 1.0),
        _running(builder, node.variance, variance, node.momentum, factor),
    )


def _running(builder: Builder, old: Value, new: Value, momentum: float, factor: float) -> Value:
    """Return ``momentum * old + (1 - momentum) * factor * new``."""
    kept = splat(builder, old.type, momentum, "kept")
    taken = splat(builder, old.type, (1 - momentum) * factor, "taken")
    return builder.emit(Add(builder.emit(Mul(old, kept)), builder.emit(Mul(new, taken))))
