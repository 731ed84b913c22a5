"""Roots of sums of powers, which norms are: where the sum is 0, so is the gradient of the norm."""

from __future__ import annotations

from glow_nb.hlir.graph import Constant, Result, Value
from glow_nb.hlir.ops.arithmetic import Add, Div, Mul, Pow
from glow_nb.hlir.ops.broadcast import Broadcast
from glow_nb.hlir.ops.elementwise import ConvertTo
from glow_nb.hlir.ops.normalization import Moments
from glow_nb.hlir.ops.pooling import AvgPool
from glow_nb.hlir.ops.reduction import ReduceMean, ReduceSum
from glow_nb.hlir.ops.shape import Reshape, Transpose

_KEEPS = (AvgPool, Broadcast, ConvertTo, ReduceMean, ReduceSum, Reshape, Transpose)
"""What is 0 only if all is that it is made of; sums are of numbers that are not negative here."""


def vanishes_with_gradient(value: Value) -> bool:
    """Return whether *value* sums up powers above 1, as squares: 0 only where these are flat.

    The derivative of a root is infinite at 0, and infinity times the gradient 0 of such a sum would
    be NaN. PyTorch's gradient of a norm is 0 there.
    """
    parts = [value]
    while parts:
        match parts.pop():
            case Mul(lhs=lhs, rhs=rhs) if lhs is rhs:
                pass
            case Pow(rhs=exponent) if _is_above(exponent, 1):
                pass
            case Result(node=Moments(), index=1):
                pass
            case Add(lhs=lhs, rhs=rhs):
                parts += [lhs, rhs]
            case Mul(lhs=rest, rhs=factor) | Div(lhs=rest, rhs=factor) if _is_above(factor, 0):
                parts.append(rest)
            case Mul(lhs=factor, rhs=rest) if _is_above(factor, 0):
                parts.append(rest)
            case part if isinstance(part, _KEEPS):
                parts.append(part.input)
            case _:
                return False
    return True


def _is_above(value: Value, bound: float) -> bool:
    while isinstance(value, Broadcast | Reshape):
        value = value.input
    return isinstance(value, Constant) and bool((value.array > bound).all())
