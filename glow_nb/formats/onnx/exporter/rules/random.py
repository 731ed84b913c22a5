"""Random numbers: ONNX leaves its own to the engine, so ours are computed by integer arithmetic."""

from __future__ import annotations

import math
from math import prod

from glow_nb.base.types import ElementKind, TensorType
from glow_nb.formats.onnx.exporter.registry import composes
from glow_nb.hlir import ops
from glow_nb.hlir.ops.formulas.terms import Term, terms, where
from glow_nb.hlir.ops.shape import slice_axis
from glow_nb.hlir.rewrite import Replacement, Rewriter
from glow_nb.numerics.philox import KEY_STEPS, LOW_WORD, MULTIPLIERS, ROUNDS, WORDS
from glow_nb.numerics.wichura import (
    FAR,
    FAR_OUTSIDE,
    MIDDLE,
    MIDDLE_RADIUS,
    MIDDLE_SIZE,
    OUTSIDE,
    Ratio,
)

INT64, UINT64 = ElementKind.INT64, ElementKind.UINT64


@composes(ops.RandomBits)
def random_bits(node: ops.RandomBits, rewriter: Rewriter) -> Replacement:
    """Philox 4x32-10 on all counters at once, see :mod:`glow_nb.numerics.philox`."""
    emit = rewriter.emit
    generator = emit(ops.ConvertTo(node.generator, UINT64))
    words = (slice_axis(rewriter, generator, 0, range(i, i + 1)) for i in range(2))
    seed, run = terms(rewriter, *words)
    size = prod(node.shape)
    blocks = -(-size // WORDS)
    one = rewriter.number(TensorType(INT64, (1,)), 1)
    numbers = emit(ops.CumSum(emit(ops.Broadcast(one, (blocks,))), axis=0, exclusive=True))
    block = Term(rewriter, emit(ops.ConvertTo(numbers, UINT64)))
    columns = _philox(
        [_low(block), _high(block), block.number(node.stream), _low(run)], [_low(seed), _high(seed)]
    )
    shaped = tuple(emit(ops.Reshape(column.value, (blocks, 1))) for column in columns)
    rows = emit(ops.Reshape(emit(ops.Concat(shaped, axis=1)), (blocks * WORDS,)))
    found = slice_axis(rewriter, rows, 0, range(size))
    return emit(ops.Reshape(emit(ops.ConvertTo(found, node.type.kind)), node.shape))


def _low(x: Term) -> Term:
    """Return the low 32 bits, a word, of each uint64."""
    return x.joined(ops.BitwiseAnd, LOW_WORD)


def _high(x: Term) -> Term:
    """Return the high 32 bits of each uint64."""
    shifted = ops.BitShift(x.value, x.number(32).value, direction="right")
    return Term(x.builder, x.builder.emit(shifted))


def _philox(counter: list[Term], key: list[Term]) -> list[Term]:
    """Return the random words of counters under a key."""

    def mixed(product: Term, word: Term, key: Term) -> Term:
        return _high(product).joined(ops.BitwiseXor, word.joined(ops.BitwiseXor, key))

    for _ in range(ROUNDS):
        first, second = counter[0] * MULTIPLIERS[0], counter[2] * MULTIPLIERS[1]
        counter = [
            mixed(second, counter[1], key[0]),
            _low(second),
            mixed(first, counter[3], key[1]),
            _low(first),
        ]
        key = [_low(word + step) for word, step in zip(key, KEY_STEPS, strict=True)]
    return counter


@composes(ops.InverseErf)
def inverse_erf(node: ops.InverseErf, rewriter: Rewriter) -> Replacement:
    """Wichura's algorithm in float64, see :mod:`glow_nb.numerics.wichura`."""
    x = Term(rewriter, rewriter.emit(ops.ConvertTo(node.input, ElementKind.FLOAT64)))

    def polynomial(value: Term, factors: tuple[float, ...]) -> Term:
        found = x.number(factors[0])
        for factor in factors[1:]:
            found = found * value + factor
        return found

    def quotient(ratio: Ratio, value: Term) -> Term:
        moved = value - ratio.origin
        return polynomial(moved, ratio.over) / polynomial(moved, (*ratio.under, 1.0))

    size = x.apply(ops.Abs)
    root = (-((1.0 - size) * 0.5).apply(ops.Log)).apply(ops.Sqrt)
    outside = where(root > FAR, quotient(FAR_OUTSIDE, root), quotient(OUTSIDE, root))
    middle = quotient(MIDDLE, MIDDLE_RADIUS - size * size * 0.25) * (size * 0.5)
    found = where(size <= MIDDLE_SIZE, middle, outside) * math.sqrt(0.5)
    found = where(size.equals(1.0), math.inf, found) * x.apply(ops.Sign)
    return rewriter.emit(ops.ConvertTo(found.value, node.type.kind))
