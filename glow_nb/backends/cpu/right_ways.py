"""For which weights the ways to compute a product are right."""

from __future__ import annotations

import numpy as np

from glow_nb.backends.cpu.products import Product, shape_of
from glow_nb.hlir.graph import Constant, Value
from glow_nb.hlir.ops import Convolution, Mul, Reshape, Transpose
from glow_nb.hlir.ops.quantization import BYTES
from glow_nb.hlir.recipe import NodeRecipe
from glow_nb.kernels.operators.strassen_weights import column_sizes
from glow_nb.kernels.operators.winograd import WHOLE_FACTORS
from glow_nb.kernels.products.product_cost import Candidate
from glow_nb.kernels.winograd.exactness import exact_tiles
from glow_nb.payload import Recipe
from glow_nb.strassen import LARGEST_COLUMN_SCALE, SIDE, scales
from glow_nb.types import Array

LIMIT = 2.0**64
"""Weights that are as large, which no network has, are not transformed."""


def is_right(node: Product, way: Candidate) -> bool:
    """Return whether *way* is right for the weights of *node*.

    Sums of weights spread one that is NaN or infinite over others, and may overflow. Integers must
    be known, so that results are known to be exact.
    """
    if way.is_strassen:
        return _are_alike(node)
    if way.tile is None:
        return True
    assert isinstance(node, Convolution)
    if node.type.kind.is_float:
        return _largest(node.filter) < LIMIT
    if node.filter.type.kind not in BYTES | {WHOLE_FACTORS}:
        return False
    weights = _numbers(node.filter)
    if weights is None:  # not supplied: what is selected is only looked at
        return isinstance(node.filter, Constant)
    shape = shape_of(node)
    taps = weights.reshape(shape.depth, *shape.kernel, shape.channels_per_group)
    return way.tile in exact_tiles(taps, node.input.type.kind, {way.tile})


def _are_alike(node: Product) -> bool:
    """Return whether the columns of the right matrix of *node* are of like size.

    Strassen's algorithm lets two of them meet in sums. Those of a matrix that is not supplied
    are alike.
    """
    weights = _numbers(node.factors[1])
    if weights is None:
        return True
    if isinstance(node, Convolution):  # of single pixels: a filter has a row for each channel
        weights = weights.reshape(len(weights), -1).T
    sizes = column_sizes(weights)
    scale, _ = scales(sizes.reshape(SIDE, -1))
    return bool((scale < LARGEST_COLUMN_SCALE).all() and (sizes < LIMIT).all())


def _numbers(weights: Value) -> Array | None:
    """Return *weights*, None if a run brings them or they are not supplied."""
    payload = weights.payload if isinstance(weights, Constant) else None
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
