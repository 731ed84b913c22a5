"""Numbers that weights begin with, as NumPy arrays.

Each function takes a shape and where the numbers come from: a ``numpy.random.Generator``, which
goes on from call to call, or a seed. Weights keep the size of what runs through a network if their
variance is fit for the number of terms that each result sums up, its *fan in*, and the number of
results that each operand has a part in, its *fan out* (Glorot and Bengio 2010, He et al. 2015).

::

    rng = np.random.default_rng(0)
    filter = kaiming_normal((64, 3, 3, 16), rng)  # of a convolution that a ReLU follows
    weights = xavier_uniform((144, 10), rng)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from math import prod
from typing import Literal

import numpy as np
import numpy.typing as npt

from glow_nb.base.errors import OptionError
from glow_nb.base.schema import closest
from glow_nb.base.types import Array

__all__ = [
    "fans_of",
    "gain",
    "kaiming_normal",
    "kaiming_uniform",
    "normal",
    "orthogonal",
    "uniform",
    "xavier_normal",
    "xavier_uniform",
    "zeros",
]

Random = np.random.Generator | int
"""Where random numbers come from: a generator, or the seed of a new one."""

Fans = tuple[int, int]
Mode = Literal["fan_in", "fan_out"]
Activation = Literal["linear", "sigmoid", "tanh", "relu", "leaky_relu", "selu"]

_GAINS = {"linear": 1.0, "sigmoid": 1.0, "tanh": 5 / 3, "relu": math.sqrt(2), "selu": 3 / 4}


def gain(activation: Activation, slope: float = 0.01) -> float:
    """Return by how much larger weights must be before an *activation*, as PyTorch has it.

    Args:
        activation: ``linear``, ``sigmoid``, ``tanh``, ``relu``, ``leaky_relu`` or ``selu``.
        slope: Slope of a leaky ReLU below 0.

    Raises:
        OptionError: The activation is another one.
    """
    if activation == "leaky_relu":
        return math.sqrt(2 / (1 + slope**2))
    if activation not in _GAINS:
        known = [*_GAINS, "leaky_relu"]
        raise OptionError(
            f"activation {activation!r} has no known gain{closest(activation, known)}; there are "
            f"those of {', '.join(known)}"
        )
    return _GAINS[activation]


def fans_of(shape: Sequence[int]) -> Fans:
    """Return fan in and fan out of weights.

    A matrix is ``[in, out]``, as those of ``mat_mul`` and ``fully_connected`` are; what has more
    dimensions is a filter ``[out, *kernel, in / groups]``. Weights that lie otherwise are given
    their fans, such as the matrices ``[out, in]`` of PyTorch.

    Raises:
        OptionError: The shape has fewer than two dimensions, or no elements.
    """
    if len(shape) < 2 or not prod(shape):
        raise OptionError(
            f"weights of shape {list(shape)} have no fan in and fan out: these are of matrices and "
            "filters; use normal, uniform or zeros, or give fans"
        )
    if len(shape) == 2:
        return shape[0], shape[1]
    outputs, *kernel, inputs = shape
    return prod(kernel) * inputs, prod(kernel) * outputs


def zeros(shape: Sequence[int], *, dtype: npt.DTypeLike = np.float32) -> Array:
    """Return zeros, which biases usually begin with."""
    return np.zeros(shape, dtype)


def uniform(
    shape: Sequence[int],
    rng: Random,
    low: float = -1.0,
    high: float = 1.0,
    *,
    dtype: npt.DTypeLike = np.float32,
) -> Array:
    """Return numbers that are equally likely from *low* to *high*."""
    return np.random.default_rng(rng).uniform(low, high, shape).astype(dtype)


def normal(
    shape: Sequence[int],
    rng: Random,
    mean: float = 0.0,
    deviation: float = 1.0,
    *,
    dtype: npt.DTypeLike = np.float32,
) -> Array:
    """Return numbers of the normal distribution."""
    return np.random.default_rng(rng).normal(mean, deviation, shape).astype(dtype)


def xavier_uniform(
    shape: Sequence[int],
    rng: Random,
    *,
    gain: float = 1.0,
    fans: Fans | None = None,
    dtype: npt.DTypeLike = np.float32,
) -> Array:
    """Return Xavier's weights: from ``-b`` to ``b = gain * sqrt(6 / (fan in + fan out))``."""
    bound = gain * math.sqrt(6 / sum(fans or fans_of(shape)))
    return uniform(shape, rng, -bound, bound, dtype=dtype)


def xavier_normal(
    shape: Sequence[int],
    rng: Random,
    *,
    gain: float = 1.0,
    fans: Fans | None = None,
    dtype: npt.DTypeLike = np.float32,
) -> Array:
    """Return Xavier's weights, with the deviation ``gain * sqrt(2 / (fan in + fan out))``."""
    deviation = gain * math.sqrt(2 / sum(fans or fans_of(shape)))
    return normal(shape, rng, 0.0, deviation, dtype=dtype)


def kaiming_uniform(
    shape: Sequence[int],
    rng: Random,
    *,
    gain: float = math.sqrt(2),
    mode: Mode = "fan_in",
    fans: Fans | None = None,
    dtype: npt.DTypeLike = np.float32,
) -> Array:
    """Return Kaiming's weights: from ``-b`` to ``b = gain * sqrt(3 / fan)``.

    Args:
        shape: Shape of the weights.
        rng: Where the numbers come from.
        gain: The gain of the activation that follows, see :func:`gain`; by default of a ReLU.
        mode: Whether activations keep their size, ``fan_in``, or gradients, ``fan_out``.
        fans: Fan in and fan out; those of :func:`fans_of` by default.
        dtype: Kind of the numbers.
    """
    bound = gain * math.sqrt(3 / _fan(mode, fans or fans_of(shape)))
    return uniform(shape, rng, -bound, bound, dtype=dtype)


def kaiming_normal(
    shape: Sequence[int],
    rng: Random,
    *,
    gain: float = math.sqrt(2),
    mode: Mode = "fan_in",
    fans: Fans | None = None,
    dtype: npt.DTypeLike = np.float32,
) -> Array:
    """Return Kaiming's weights, with the deviation ``gain / sqrt(fan)``; see the uniform ones."""
    deviation = gain / math.sqrt(_fan(mode, fans or fans_of(shape)))
    return normal(shape, rng, 0.0, deviation, dtype=dtype)


def orthogonal(
    shape: Sequence[int],
    rng: Random,
    *,
    gain: float = 1.0,
    dtype: npt.DTypeLike = np.float32,
) -> Array:
    """Return weights whose rows or columns, whichever are fewer, are orthogonal and *gain* long.

    A row is all that belongs to one index of the first dimension (Saxe, McClelland and Ganguli
    2014). All such matrices are equally likely.

    Raises:
        OptionError: The shape has fewer than two dimensions.
    """
    if len(shape) < 2:
        raise OptionError(
            f"weights of shape {list(shape)} have no rows and columns to be orthogonal; use normal "
            "or uniform"
        )
    rows, columns = shape[0], prod(shape[1:])
    numbers = np.random.default_rng(rng).normal(size=(max(rows, columns), min(rows, columns)))
    matrix, triangle = np.linalg.qr(numbers)
    matrix *= np.sign(np.diagonal(triangle))  # without this, some matrices were likelier
    matrix = matrix if rows >= columns else matrix.T
    return (gain * matrix).reshape(shape).astype(dtype)


def _fan(mode: Mode, fans: Fans) -> int:
    if mode not in ("fan_in", "fan_out"):
        raise OptionError(f"mode {mode!r} is unknown; choose 'fan_in' or 'fan_out'")
    return fans[mode == "fan_out"]
