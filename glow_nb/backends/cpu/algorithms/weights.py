"""The conditions of algorithms on constant weights."""

from __future__ import annotations

import numpy as np

from glow_nb.base.payload import Recipe
from glow_nb.base.types import Array
from glow_nb.hlir.graph import Constant, Value
from glow_nb.hlir.ops import Mul, Reshape, Transpose
from glow_nb.hlir.recipe import NodeRecipe

LIMIT = 2.0**64
"""Weights that are as large, which no network has, are not transformed."""


def numbers_of(weights: Value) -> Array | None:
    """Return *weights*, None if a run brings them or they are not supplied."""
    payload = weights.payload if isinstance(weights, Constant) else None
    return payload.make() if isinstance(payload, Recipe) else payload


def largest_of(weights: Value) -> float:
    """Return what no number of *weights* is larger than; NaN if one is, and 0 if none is known.

    A product of weights and factors, as folding a normalization makes, is not computed for that.
    """
    match weights:
        case Constant(payload=NodeRecipe(node=Mul(lhs=lhs, rhs=rhs))):
            return largest_of(lhs) * largest_of(rhs)
        case Constant(payload=NodeRecipe(node=Reshape(input=input) | Transpose(input=input))):
            return largest_of(input)
        case Constant(payload=payload) if payload is not None and weights.type.size:
            numbers = payload.make() if isinstance(payload, Recipe) else payload
            return float(np.maximum(-numbers.min(), numbers.max()))
    return 0.0
