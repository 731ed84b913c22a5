"""For which weights the ways to compute a convolution are right."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from glow_nb.hlir.graph import Constant, Value
from glow_nb.hlir.ops import Convolution, Mul, Reshape, Transpose
from glow_nb.hlir.ops.quantization import BYTES
from glow_nb.hlir.recipe import NodeRecipe
from glow_nb.kernels.operators.winograd import WHOLE_FACTORS
from glow_nb.kernels.products.convolution_cost import Candidate
from glow_nb.kernels.products.convolution_shape import ConvolutionShape
from glow_nb.kernels.winograd.exactness import exact_tiles
from glow_nb.payload import Recipe
from glow_nb.types import Array

LARGEST_WEIGHT = 2.0**64
"""Filters with a larger one, which no network has, are not transformed."""


def right_ways(
    node: Convolution, shape: ConvolutionShape, ways: Sequence[Candidate]
) -> list[Candidate]:
    """Return those of *ways* that are right for the weights of *node*, which has this *shape*.

    A transform spreads a weight that is NaN or infinite over all taps, and may overflow. Integers
    must be known, so that results are known to be exact.
    """
    tiles = {way.tile for way in ways if way.tile is not None}
    if not tiles:
        return list(ways)
    weights = None if node.type.kind.is_float else _numbers(node)
    if node.type.kind.is_float:
        right = tiles if _largest(node.filter) < LARGEST_WEIGHT else set()
    elif node.filter.type.kind not in BYTES | {WHOLE_FACTORS}:
        right = set()
    elif weights is None:  # not supplied: what is selected is only looked at
        right = tiles if isinstance(node.filter, Constant) else set()
    else:
        taps = weights.reshape(shape.depth, *shape.kernel, shape.channels_per_group)
        right = set(exact_tiles(taps, node.input.type.kind, tiles))
    return [way for way in ways if way.tile is None or way.tile in right]


def _numbers(node: Convolution) -> Array | None:
    """Return the weights of *node*, None if a run brings them or they are not supplied."""
    payload = node.filter.payload if isinstance(node.filter, Constant) else None
    return payload.make() if isinstance(payload, Recipe) else payload


def _largest(filter: Value) -> float:
    """Return what no weight of *filter* is larger than; NaN if one is, and 0 if none is known.

    A product of weights and factors, as folding a normalization makes, is not computed for that.
    """
    match filter:
        case Constant(payload=NodeRecipe(node=Mul(lhs=lhs, rhs=rhs))):
            return _largest(lhs) * _largest(rhs)
        case Constant(payload=NodeRecipe(node=Reshape(input=input) | Transpose(input=input))):
            return _largest(input)
        case Constant(payload=payload) if payload is not None and filter.type.size:
            weights = payload.make() if isinstance(payload, Recipe) else payload
            return float(np.maximum(-weights.min(), weights.max()))
    return 0.0
