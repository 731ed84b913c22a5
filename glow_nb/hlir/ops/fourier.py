"""Discrete Fourier transforms of sequences of real or complex numbers."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np
from typing_extensions import override

from glow_nb.base.costs import Cost
from glow_nb.base.types import Array, TensorType
from glow_nb.hlir.graph import Node, Value, define_node
from glow_nb.hlir.ops.families import FLOATS, fitted, require_kind, wide
from glow_nb.hlir.ops.matrix import MatMul
from glow_nb.hlir.ops.shape import Reshape
from glow_nb.hlir.rewrite import Replacement, Rewriter
from glow_nb.hlir.rules import lowers
from glow_nb.numerics.fourier import roots_of_unity

LONGEST_PRODUCT = 8192
"""The longest transform that is expressed as a product with a matrix of roots."""


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Transforming(Node):
    """Base of operators that transform sequences; what they compute.

    Attributes:
        length: The length *n* of the transform.
        inverse: Turn the other way, and divide by *n*.
        onesided: Of a spectrum, only the first ``n // 2 + 1`` numbers are there: those of a result,
            or, of an inverse, those of ``input``, whose result is real, ``[..., n, 1]``.
    """

    length: int
    inverse: bool = False
    onesided: bool = False

    @property
    def is_real_inverse(self) -> bool:
        """Whether half a spectrum becomes real numbers."""
        return self.inverse and self.onesided

    @property
    def result_length(self) -> int:
        """Numbers of a result."""
        return self.length // 2 + 1 if self.onesided and not self.inverse else self.length

    def transformed_type(self, input: TensorType) -> TensorType:
        """Return the type of the transform of *input*; raise VerifyError if it has none."""
        require_kind(self, "input", input, FLOATS)
        self.require(self.length >= 1, f"length is {self.length}, but must be positive")
        wanted = self.length // 2 + 1 if self.is_real_inverse else self.length
        self.require(
            input.rank >= 2 and input.shape[-1] in (1, 2) and input.shape[-2] == wanted,
            f"'input' is {input}, but must be [..., {wanted}, 1 or 2]",
        )
        parts = 1 if self.is_real_inverse else 2
        return input.with_shape((*input.shape[:-2], self.result_length, parts))

    def transformed(self, input: Array) -> Array:
        """Return the transform of *input*, made in float64."""
        x = wide(input)
        numbers = x[..., 0] + (1j * x[..., 1] if x.shape[-1] == 2 else 0)
        if self.is_real_inverse:
            found: Array = np.fft.irfft(numbers, self.length)[..., None]
        else:
            whole = np.fft.ifft(numbers) if self.inverse else np.fft.fft(numbers)
            whole = whole[..., : self.result_length]
            found = np.stack([whole.real, whole.imag], axis=-1)
        return fitted(found, self.type)

    @override
    def cost(self) -> Cost:
        """Count the operations of a fast transform."""
        return Cost(2 * self.type.size * self.length.bit_length())


@define_node("fourier_transform")
class FourierTransform(Transforming):
    """Transform sequences: ``result[..., k] = sum over j of input[..., j] * exp(-2 pi i j k / n)``.

    ``input`` is ``[..., n, 1]``, real numbers, or ``[..., n, 2]``, their real and imaginary parts;
    so is the result.
    """

    input: Value

    @override
    def infer_type(self) -> TensorType:
        return self.transformed_type(self.input.type)

    @override
    def evaluate(self, input: Array) -> Array:
        return self.transformed(input)


@lowers(FourierTransform)
def lower_fourier_transform(node: FourierTransform, rewriter: Rewriter) -> Replacement:
    """Express it as one product with a matrix of roots, unless that would be huge."""
    if node.length > LONGEST_PRODUCT:
        return None
    *outer, length, parts = node.input.type.shape
    if node.is_real_inverse:
        matrix = _real_inverse_roots(node.length, parts)
    else:
        matrix = _roots(node.length, node.result_length, parts, is_inverse=node.inverse)
    inner = length * parts
    flat = TensorType(node.type.kind, (inner, matrix.size // inner))
    roots = rewriter.constant("roots", fitted(matrix.reshape(flat.shape), flat))
    rows = rewriter.emit(Reshape(node.input, (prod(outer), inner)))
    product = rewriter.emit(MatMul(rows, roots))
    return rewriter.emit(Reshape(product, node.type.shape))


def _products(rows: int, columns: int, length: int) -> Array:
    """Return the roots of the products of indices."""
    return roots_of_unity(np.outer(np.arange(rows), np.arange(columns)), length)


def _roots(length: int, count: int, parts: int, *, is_inverse: bool) -> Array:
    """Return ``[length, parts, count, 2]``: parts of the input to parts of the result."""
    roots = _products(length, count, length)
    real, imaginary = roots.real, -roots.imag if is_inverse else roots.imag
    rows = [np.stack([real, imaginary], axis=-1), np.stack([-imaginary, real], axis=-1)]
    matrix = np.stack(rows[:parts], axis=1)
    return matrix / length if is_inverse else matrix


def _real_inverse_roots(length: int, parts: int) -> Array:
    """Return ``[half, parts, length, 1]``: half a symmetric spectrum to real numbers."""
    half = length // 2 + 1
    roots = _products(half, length, length)
    # All but the first, and for an even length the last, stand for two of the whole spectrum.
    double = np.full((half, 1), 2.0)
    double[0] = 1
    if length % 2 == 0:
        double[-1] = 1
    rows = [double * roots.real, double * roots.imag]
    return np.stack(rows[:parts], axis=1)[..., None] / length
