"""Random numbers: ONNX leaves its own to the engine, so ours are computed by integer arithmetic."""

from __future__ import annotations

import math
from math import prod

from glow_nb.base.types import ElementKind, TensorType
from glow_nb.formats.onnx.exporter.registry import composes
from glow_nb.hlir import ops
from glow_nb.hlir.graph import Value
from glow_nb.hlir.ops.families import splat
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
NUMBER = TensorType(UINT64, (1,))


@composes(ops.RandomBits)
def random_bits(node: ops.RandomBits, rewriter: Rewriter) -> Replacement:
    """Philox 4x32-10 on all counters at once, see :mod:`glow_nb.numerics.philox`."""
    emit, words = rewriter.emit, _Words(rewriter)
    generator = emit(ops.ConvertTo(node.generator, UINT64))
    seed, run = (slice_axis(rewriter, generator, 0, range(i, i + 1)) for i in range(2))
    size = prod(node.shape)
    blocks = -(-size // WORDS)
    one = splat(rewriter, NUMBER.with_kind(INT64), 1, f"{node.name}_one")
    numbers = emit(ops.CumSum(emit(ops.Broadcast(one, (blocks,))), axis=0, exclusive=True))
    block = emit(ops.ConvertTo(numbers, UINT64))
    stream = words.constant(node.stream)
    columns = words.philox(
        [words.low(block), words.high(block), stream, words.low(run)],
        [words.low(seed), words.high(seed)],
    )
    shaped = tuple(emit(ops.Reshape(column, (blocks, 1))) for column in columns)
    rows = emit(ops.Reshape(emit(ops.Concat(shaped, axis=1)), (blocks * WORDS,)))
    found = slice_axis(rewriter, rows, 0, range(size))
    return emit(ops.Reshape(emit(ops.ConvertTo(found, node.type.kind)), node.shape))


class _Words:
    """Arithmetic of words of 32 bits, each in a uint64."""

    def __init__(self, rewriter: Rewriter) -> None:
        """Emit with *rewriter*."""
        self._rewriter, self._emit = rewriter, rewriter.emit
        self._mask, self._half = self.constant(LOW_WORD), self.constant(32)

    def constant(self, number: int) -> Value:
        """Return a constant word."""
        return splat(self._rewriter, NUMBER, number, "word")

    def low(self, x: Value) -> Value:
        """Return the low 32 bits."""
        return self._emit(ops.BitwiseAnd(x, self._mask))

    def high(self, x: Value) -> Value:
        """Return the high 32 bits."""
        return self._emit(ops.BitShift(x, self._half, direction="right"))

    def philox(self, counter: list[Value], key: list[Value]) -> list[Value]:
        """Return the random words of counters under a key."""
        emit = self._emit
        multipliers, steps = (
            [self.constant(number) for number in numbers] for numbers in (MULTIPLIERS, KEY_STEPS)
        )
        for _ in range(ROUNDS):
            first = emit(ops.Mul(counter[0], multipliers[0]))
            second = emit(ops.Mul(counter[2], multipliers[1]))
            counter = [
                self._mixed(second, counter[1], key[0]),
                self.low(second),
                self._mixed(first, counter[3], key[1]),
                self.low(first),
            ]
            key = [self.low(emit(ops.Add(k, step))) for k, step in zip(key, steps, strict=True)]
        return counter

    def _mixed(self, product: Value, word: Value, key: Value) -> Value:
        other = self._emit(ops.BitwiseXor(word, key))
        return self._emit(ops.BitwiseXor(self.high(product), other))


@composes(ops.InverseErf)
def inverse_erf(node: ops.InverseErf, rewriter: Rewriter) -> Replacement:
    """Wichura's algorithm in float64, see :mod:`glow_nb.numerics.wichura`."""
    emit, kind = rewriter.emit, node.type.kind
    x = emit(ops.ConvertTo(node.input, ElementKind.FLOAT64))

    def number(value: float) -> Value:
        return splat(rewriter, x.type, value, f"{node.name}_number")

    def polynomial(value: Value, factors: tuple[float, ...]) -> Value:
        found = number(factors[0])
        for factor in factors[1:]:
            found = emit(ops.Add(emit(ops.Mul(found, value)), number(factor)))
        return found

    def quotient(ratio: Ratio, value: Value) -> Value:
        moved = emit(ops.Sub(value, number(ratio.origin)))
        over, under = polynomial(moved, ratio.over), polynomial(moved, (*ratio.under, 1.0))
        return emit(ops.Div(over, under))

    size = emit(ops.Abs(x))
    missing = emit(ops.Mul(emit(ops.Sub(number(1), size)), number(0.5)))
    root = emit(ops.Sqrt(emit(ops.Neg(emit(ops.Log(missing))))))
    is_far = emit(ops.Greater(root, number(FAR)))
    outside = emit(ops.Select(is_far, quotient(FAR_OUTSIDE, root), quotient(OUTSIDE, root)))
    quarter = emit(ops.Mul(emit(ops.Mul(size, size)), number(0.25)))
    middle = quotient(MIDDLE, emit(ops.Sub(number(MIDDLE_RADIUS), quarter)))
    middle = emit(ops.Mul(middle, emit(ops.Mul(size, number(0.5)))))
    is_middle = emit(ops.LessEqual(size, number(MIDDLE_SIZE)))
    found: Value = emit(
        ops.Mul(emit(ops.Select(is_middle, middle, outside)), number(math.sqrt(0.5)))
    )
    found = emit(ops.Select(emit(ops.Equal(size, number(1))), number(math.inf), found))
    return emit(ops.ConvertTo(emit(ops.Mul(found, emit(ops.Sign(x)))), kind))
