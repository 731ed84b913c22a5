"""Random numbers: each is a function of seed, run, stream and place alone.

All come from the counter-based generator of :mod:`glow_nb.numerics.philox`. Its operand
``generator``, ``int64<2>``, holds the seed and the number of the run; whoever runs a function again
and again counts the runs up. The attribute ``stream`` tells the nodes of one function apart: those
with equal streams make equal numbers, the others share none.

A uniform number is made of the high 24 bits of its word, as many as a ``float32`` has: a whole
number times 2**-24, so that nothing is rounded, 1 cannot come out, and every backend gets the same
bits. A ``float64`` is made of 53 bits of two words. A normal number comes from one uniform number,
by the inverse of the distribution: unlike the numbers of Box and Muller's method, no two depend on
each other, so that a loop over anything else can make them as it needs them.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
from typing_extensions import override

from glow_nb.base.costs import Cost
from glow_nb.base.types import Array, ElementKind, TensorType
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Node, Value, define_node
from glow_nb.hlir.ops.arithmetic import Add, BitShift, BitwiseOr, Minimum, Mul
from glow_nb.hlir.ops.comparison import Less, Select
from glow_nb.hlir.ops.elementwise import ConvertTo, as_kind, error_complement, error_function
from glow_nb.hlir.ops.families import (
    FLOATS,
    Kinds,
    UnaryElementwise,
    fitted,
    require_kind,
    splat,
)
from glow_nb.hlir.ops.shape import Reshape, slice_axis
from glow_nb.hlir.rewrite import Rewriter
from glow_nb.hlir.rules import lowers
from glow_nb.numerics.philox import GENERATOR, LOW_WORD, random_words

FLOAT32, FLOAT64 = ElementKind.FLOAT32, ElementKind.FLOAT64

_OPERATIONS_A_WORD = 20
"""Two products, two shifts and four exclusive ors in each of ten rounds, for four words."""


class Drawn(Node):
    """Base of operators that draw random numbers, by the seed and run that *generator* holds."""

    generator: Value
    stream: int

    def require_source(self) -> None:
        """Raise VerifyError unless generator and stream are such."""
        self.require(
            self.generator.type == GENERATOR,
            f"'generator' is {self.generator.type}; it must be {GENERATOR}, seed and run",
        )
        self.require(
            0 <= self.stream <= LOW_WORD,
            f"stream {self.stream} must be from 0 to {LOW_WORD}; choose another number",
        )

    @override
    def cost(self) -> Cost:
        return Cost(others=_OPERATIONS_A_WORD * self.type.size)


@define_node("random_bits")
class RandomBits(Drawn):
    """Random words of 32 bits, all equally likely: what all random numbers are made of.

    Attributes:
        shape: The shape of the result.
        stream: Which of the generator's independent streams of numbers it draws from.
    """

    generator: Value
    shape: tuple[int, ...]
    stream: int = 0

    @override
    def infer_type(self) -> TensorType:
        self.require_source()
        return TensorType(ElementKind.UINT32, self.shape)

    @override
    def evaluate(self, generator: Array) -> Array:
        return fitted(random_words(generator, self.stream, self.shape), self.type)


_MADE: Kinds = frozenset({FLOAT32, FLOAT64})
"""The kinds that random numbers are made in; those of 16 bits are converted from them."""
_DIGITS = {FLOAT32: 24, FLOAT64: 53}
"""Random bits of a number: as many as its significand has."""
_LOW_DIGITS = 26
"""A random float64 has the high 27 bits of one word before this number of high bits of another."""


class _DrawnFloats(Drawn):
    """Base of operators that make random floats out of nothing but the generator."""

    shape: tuple[int, ...]
    kind: ElementKind

    @override
    def infer_type(self) -> TensorType:
        self.require_source()
        self.require(
            self.kind in _MADE,
            f"kind is {self.kind.value}; make float32 or float64, and convert that",
        )
        return TensorType(self.kind, self.shape)


@define_node("random_uniform")
class RandomUniform(_DrawnFloats):
    """Random numbers that are equally likely from *low* to *high*.

    ``low + (high - low) * u`` with u a multiple of 2**-24 (``float64``: 2**-53) from 0 up to, but
    not including, 1. A result that would be rounded to *high* is the greatest number below it. It
    is computed in ``float64``: there the product of a ``float32`` is exact, so that it does not
    matter to any bit whether product and sum are rounded once or twice. For a ``float64`` with
    other bounds than 0 and 1 it does.

    Attributes:
        shape: The shape of the result.
        kind: The kind of the result, a float.
        low: The lower bound, which is among the numbers.
        high: The upper bound, which is not.
        stream: Which of the generator's independent streams of numbers it draws from.
    """

    generator: Value
    shape: tuple[int, ...]
    kind: ElementKind = FLOAT32
    low: float = 0.0
    high: float = 1.0
    stream: int = 0

    @override
    def infer_type(self) -> TensorType:
        type = super().infer_type()
        span, _, _ = self.interval
        self.require(
            0 <= span < math.inf,
            f"there is no finite interval of {self.kind.value} from {self.low} to {self.high}; "
            "choose others",
        )
        return type

    @property
    def is_unit(self) -> bool:
        """Return whether the numbers are from 0 to 1."""
        return (self.low, self.high) == (0.0, 1.0)

    @property
    def interval(self) -> tuple[Any, Any, Any]:
        """Length, least and greatest number of the interval, rounded to the kind."""
        with np.errstate(all="ignore"):
            low, high = (self.kind.dtype.type(number) for number in (self.low, self.high))
            return high - low, low, np.nextafter(high, low)

    @override
    def evaluate(self, generator: Array) -> Array:
        found = uniform(generator, self.stream, self.type)
        if self.is_unit:
            return found
        span, low, greatest = self.interval
        scaled = fitted(found.astype(np.float64) * float(span) + float(low), self.type)
        return fitted(np.minimum(scaled, greatest), self.type)


@lowers(RandomUniform)
def lower_random_uniform(node: RandomUniform, rewriter: Rewriter) -> Value:
    """Express it by random bits, which are converted and scaled."""
    found = _times(rewriter, _emit_digits(rewriter, node), 2.0 ** -_DIGITS[node.kind])
    if node.is_unit:
        return found
    span, low, greatest = node.interval
    wide = as_kind(rewriter, found, FLOAT64)
    found = as_kind(rewriter, _plus(rewriter, _times(rewriter, wide, span), low), node.kind)
    return rewriter.emit(Minimum(found, splat(rewriter, found.type, greatest, "greatest")))


@define_node("random_normal")
class RandomNormal(_DrawnFloats):
    """Random numbers of the normal distribution: ``mean + scale * sqrt(2) * inverse_erf(v)``.

    v is an odd multiple of 2**-24 (``float64``: 2**-53), doubled and less 1: v and -v are equally
    likely, and no result is infinite. Of ``float32`` the farthest is 5.3 times *scale* off.

    Attributes:
        shape: The shape of the result.
        kind: The kind of the result, a float.
        mean: The mean of the distribution.
        scale: The standard deviation of the distribution.
        stream: Which of the generator's independent streams of numbers it draws from.
    """

    generator: Value
    shape: tuple[int, ...]
    kind: ElementKind = FLOAT32
    mean: float = 0.0
    scale: float = 1.0
    stream: int = 0

    @override
    def infer_type(self) -> TensorType:
        self.require(
            math.isfinite(self.mean) and 0 <= self.scale < math.inf,
            f"mean {self.mean} and scale {self.scale} must be finite, and scale not negative; "
            "choose others",
        )
        return super().infer_type()

    @override
    def evaluate(self, generator: Array) -> Array:
        odd = _digits(generator, self.stream, self.type, lowest=1)
        centred = odd.astype(np.float64) * 2.0 ** (1 - _DIGITS[self.kind]) - 1
        found = inverse_error_function(centred) * (math.sqrt(2) * self.scale) + self.mean
        return fitted(found, self.type)


@lowers(RandomNormal)
def lower_random_normal(node: RandomNormal, rewriter: Rewriter) -> Value:
    """Express it by random bits, and the inverse error function of the converted bits."""
    odd = _emit_digits(rewriter, node, lowest=1)
    centred = _plus(rewriter, _times(rewriter, odd, 2.0 ** (1 - _DIGITS[node.kind])), -1.0)
    found = _times(rewriter, rewriter.emit(InverseErf(centred)), math.sqrt(2) * node.scale)
    return _plus(rewriter, found, node.mean) if node.mean else found


@define_node("bernoulli")
class Bernoulli(Drawn):
    """True with a *probability* of its own for each element: where a uniform number is below it.

    The uniform numbers are those of ``random_uniform`` with this generator and stream, in the kind
    of the probabilities, ``float32`` for 16-bit floats. A probability of 1 or more is always true,
    one of 0 or less never, nor is NaN.

    Attributes:
        stream: Which of the generator's independent streams of numbers it draws from.
    """

    probability: Value
    generator: Value
    stream: int = 0

    @override
    def infer_type(self) -> TensorType:
        require_kind(self, "probability", self.probability.type, FLOATS)
        self.require_source()
        return self.probability.type.with_kind(ElementKind.BOOL)

    @override
    def evaluate(self, probability: Array, generator: Array) -> Array:
        kind = FLOAT64 if probability.dtype == np.float64 else FLOAT32
        numbers = uniform(generator, self.stream, self.type.with_kind(kind))
        return fitted(numbers < probability.astype(kind.dtype), self.type)


@lowers(Bernoulli)
def lower_bernoulli(node: Bernoulli, rewriter: Rewriter) -> Value:
    """Compare uniform numbers with the probabilities."""
    kind = FLOAT64 if node.probability.type.kind is FLOAT64 else FLOAT32
    return _emit_below(rewriter, node, as_kind(rewriter, node.probability, kind))


@define_node("dropout")
class Dropout(Drawn):
    """Drop elements at random, and scale the others so that the expected values stay.

    ``result[i] = input[i] * (1 / (1 - ratio)) if u[i] < 1 - ratio else 0``, with the uniform
    ``float32`` numbers u of this generator and stream: ``bernoulli`` of them, with probabilities
    ``1 - ratio``, is the mask. A dropped element is 0 even if it was NaN. With a *ratio* of 1 all
    are dropped.

    Attributes:
        ratio: The probability with which an element is dropped, from 0 to 1.
        stream: Which of the generator's independent streams of numbers it draws from.
    """

    kinds: ClassVar[Kinds] = FLOATS
    input: Value
    generator: Value
    ratio: float = 0.5
    stream: int = 0

    @override
    def infer_type(self) -> TensorType:
        require_kind(self, "input", self.input.type, self.kinds)
        self.require_source()
        self.require(0 <= self.ratio <= 1, f"ratio {self.ratio} must be from 0 to 1; change it")
        return self.input.type

    @property
    def factor(self) -> float:
        """The factor of the elements that stay."""
        return 1 / (1 - self.ratio) if self.ratio < 1 else 0.0

    @override
    def evaluate(self, input: Array, generator: Array) -> Array:
        numbers = uniform(generator, self.stream, self.type.with_kind(FLOAT32))
        factor = self.factor if input.dtype == np.float64 else float(np.float32(self.factor))
        with np.errstate(all="ignore"):
            scaled = input.astype(np.float64) * factor
        return fitted(np.where(numbers < np.float32(1 - self.ratio), scaled, 0), self.type)


@lowers(Dropout)
def lower_dropout(node: Dropout, rewriter: Rewriter) -> Value:
    """Select between the scaled element and zero."""
    type = node.type.with_kind(FLOAT32)
    kept = _emit_below(rewriter, node, splat(rewriter, type, 1 - node.ratio, "kept_share"))
    scaled = _times(rewriter, node.input, node.factor)
    return rewriter.emit(Select(kept, scaled, splat(rewriter, scaled.type, 0, "dropped")))


@define_node("inverse_erf", scalar="inverse_erf(input)")
class InverseErf(UnaryElementwise):
    """Inverse error function: ``erf(result[i]) = input[i]``; NaN outside -1..1."""

    @override
    def compute(self, x: Any) -> Any:
        return inverse_error_function(x)


_STEPS = 3
"""Steps of Halley's method: each triples the digits, and the first guess has two."""


def inverse_error_function(x: Any) -> Any:
    """Return the inverse of erf for each element of *x*, as float64."""
    size = np.abs(np.asarray(x, np.float64))
    with np.errstate(all="ignore"):
        log = np.log1p(-size * size)
        half = 2 / (math.pi * 0.147) + log / 2
        y = np.sqrt(np.sqrt(half * half - log / 0.147) - half)  # Winitzki's approximation
        for _ in range(_STEPS):
            near, far = error_function(y) - size, (1 - size) - error_complement(y)
            change = np.where(size < 0.5, near, far) * (math.sqrt(math.pi) / 2) * np.exp(y * y)
            y = np.where(np.isfinite(change), y - change / (1 + y * change), y)
    return np.copysign(y, x)


def uniform(generator: Array, stream: int, type: TensorType) -> Array:
    """Return the uniform numbers of a tensor of *type*, ``float32`` or ``float64``."""
    digits = _digits(generator, stream, type)
    return np.asarray(digits * digits.dtype.type(2.0 ** -_DIGITS[type.kind]))


def _digits(generator: Array, stream: int, type: TensorType, *, lowest: int = 0) -> Array:
    """Return random whole numbers of as many bits as *type* has; the *lowest* may be set always."""
    bit = np.uint32(lowest)
    if type.kind is FLOAT32:
        words = random_words(generator, stream, type.shape)
        return ((words >> np.uint32(8)) | bit).astype(np.float32)
    high, low = random_words(generator, stream, (2, *type.shape))
    whole = (high >> np.uint32(5)).astype(np.float64) * 2.0**_LOW_DIGITS
    return np.asarray(whole + ((low >> np.uint32(6)) | bit))


def _emit_digits(builder: Builder, node: _DrawnFloats, *, lowest: int = 0) -> Value:
    """Emit what :func:`_digits` returns."""
    if node.kind is FLOAT32:
        words = builder.emit(RandomBits(node.generator, node.shape, node.stream))
        return _emit_high_bits(builder, words, 24, FLOAT32, lowest)
    words = builder.emit(RandomBits(node.generator, (2, *node.shape), node.stream))
    high, low = (
        builder.emit(Reshape(slice_axis(builder, words, 0, range(half, half + 1)), node.shape))
        for half in range(2)
    )
    whole = _emit_high_bits(builder, high, 27, FLOAT64)
    rest = _emit_high_bits(builder, low, _LOW_DIGITS, FLOAT64, lowest)
    return builder.emit(Add(_times(builder, whole, 2.0**_LOW_DIGITS), rest))


def _emit_high_bits(
    builder: Builder, words: Value, bits: int, kind: ElementKind, lowest: int = 0
) -> Value:
    """Emit the high *bits* of *words* as numbers of *kind*; the *lowest* may be set always."""
    shift = splat(builder, words.type, 32 - bits, "shift")
    words = builder.emit(BitShift(words, shift, direction="right"))
    if lowest:
        words = builder.emit(BitwiseOr(words, splat(builder, words.type, lowest, "lowest")))
    return builder.emit(ConvertTo(words, kind))


def _emit_below(builder: Builder, node: Drawn, limit: Value) -> Value:
    """Emit where a uniform number of *node* is below *limit*."""
    numbers = RandomUniform(node.generator, node.type.shape, limit.type.kind, stream=node.stream)
    return builder.emit(Less(builder.emit(numbers), limit))


def _times(builder: Builder, x: Value, factor: float) -> Value:
    return builder.emit(Mul(x, builder.number(x.type, factor)))


def _plus(builder: Builder, x: Value, term: float) -> Value:
    return builder.emit(Add(x, builder.number(x.type, term)))
