"""Gradients of random numbers: dropout passes on what its mask kept."""

from __future__ import annotations

import math

from glow_nb.hlir.backward import Backward
from glow_nb.hlir.graph import Value
from glow_nb.hlir.ops.arithmetic import Mul
from glow_nb.hlir.ops.elementwise import Exp
from glow_nb.hlir.ops.random import (
    Bernoulli,
    Dropout,
    InverseErf,
    RandomBits,
    RandomNormal,
    RandomUniform,
)
from glow_nb.hlir.rules import OperandGradients, gradient, no_gradient


@gradient(Dropout)
def dropout_gradient(node: Dropout, upstream: Value, builder: Backward) -> OperandGradients:
    """``dx = dropout(dy)`` with the same mask, which is made again and not kept."""
    dropped = Dropout(upstream, node.generator, ratio=node.ratio, stream=node.stream)
    return {"input": builder.emit(dropped)}


@gradient(InverseErf)
def inverse_erf_gradient(node: InverseErf, upstream: Value, builder: Backward) -> OperandGradients:
    """``d inverse_erf(x) = sqrt(pi) / 2 * exp(inverse_erf(x) ** 2) dx``; infinite at -1 and 1."""
    slope = builder.emit(Exp(builder.emit(Mul(node, node))))
    half = builder.filled(node.type, math.sqrt(math.pi) / 2, "half_root_of_pi")
    return {"input": builder.emit(Mul(upstream, builder.emit(Mul(slope, half))))}


no_gradient("its random words are whole numbers", RandomBits)
no_gradient("its random numbers depend on nothing but a seed", RandomNormal, RandomUniform)
no_gradient("its results are truth values", Bernoulli)
