"""Weights as integers: one scale for all, or one for each channel of the result."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from glow_nb.base.conversion import rounded
from glow_nb.base.types import Array, ElementKind
from glow_nb.quant.schemas import LEAST_SCALE, Encoding, Schema

MOST_BIAS = 2**31 - 256
"""The greatest integer of a bias: what comes out of float32 arithmetic stays within int32."""


@dataclass(frozen=True)
class QuantizedWeights:
    """Integers that stand for weights.

    Attributes:
        stored: The integers, of the shape of the weights.
        scale: float32, of the rank of the weights; it broadcasts to them.
        offset: The integer for 0, of the kind of *stored*.
    """

    stored: Array
    scale: Array
    offset: int

    @property
    def real(self) -> Array:
        """What the integers stand for, in float32."""
        steps = self.stored.astype(np.float32) - np.float32(self.offset)
        numbers: Array = steps * self.scale
        return numbers


def quantize_weights(
    weights: Array, axis: int | None, kind: ElementKind, schema: Schema, least_scale: Array | float
) -> QuantizedWeights:
    """Return *weights* as integers.

    Args:
        weights: float32.
        axis: The axis of the channels that each have a scale, None for one scale.
        kind: Kind of the integers.
        schema: Makes a scale of a range of numbers as far below 0 as above.
        least_scale: The lower limit of the scale of each channel.
    """
    others = tuple(n for n in range(weights.ndim) if axis is None or n != axis % weights.ndim)
    reach = np.abs(weights).max(axis=others, keepdims=True, initial=0.0).astype(np.float64)
    # A channel of zeros takes the scale of the others: its bias is counted in steps of it.
    reach = np.where(reach > 0, reach, reach.max(initial=0.0))
    encodings = [schema(-most, most, kind) for most in reach.ravel().tolist()]
    scale = np.array([encoding.scale for encoding in encodings], np.float32)
    least = np.max(least_scale, initial=0.0) if axis is None else least_scale
    scale = np.maximum(scale, np.asarray(least, np.float32))
    scale, offset = scale.reshape(reach.shape), encodings[0].offset if encodings else 0
    return QuantizedWeights(rounded(weights / scale, np.asarray(offset), kind), scale, offset)


def least_scales(bias: Array, input: Encoding) -> Array:
    """Return the least scale of the weights of each channel.

    With it *bias* is a number of int32, and the scale of the sums a normal float32.
    """
    least: Array = np.abs(bias).astype(np.float64) / (input.scale * MOST_BIAS)
    return np.maximum(least, 2 * LEAST_SCALE / min(input.scale, 1.0))


def quantize_bias(bias: Array, input: Encoding, weight_scale: Array) -> tuple[Array, Array]:
    """Return *bias* as int32, and its scale: that of the sums of products.

    Args:
        bias: float32 ``[K]``.
        input: The quantized type of the activations.
        weight_scale: The scales of the weights, one or K.
    """
    scale = np.broadcast_to(np.float32(input.scale) * weight_scale.ravel(), bias.shape)
    steps = np.rint(bias.astype(np.float64) / scale)
    limit = 2**31 - 1
    return np.clip(steps, -limit, limit).astype(np.int32), np.ascontiguousarray(scale)
