"""Arithmetic and logic on two tensors.

What ends a process in C, as it is undefined there, has a result here: the quotient of an integer
and zero, and of the least integer and -1. Such divisors are replaced before, unless a constant
divisor has none. The same goes for negative exponents of integers. Powers of integers that overflow
are not the same everywhere: ONNX Runtime computes them in float64.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from glow_nb.base.types import Array, ElementKind
from glow_nb.formats.onnx.exporter.registry import composes, exports
from glow_nb.formats.onnx.exporter.writer import Writer
from glow_nb.hlir import ops
from glow_nb.hlir.graph import Value
from glow_nb.hlir.known import array_of
from glow_nb.hlir.ops.formulas.terms import Term, terms, where
from glow_nb.hlir.rewrite import Replacement, Rewriter


def divides_safely(node: ops.Div | ops.Modulo) -> bool:
    """True unless an integer may be divided by zero, or the least one by -1."""
    kind = node.type.kind
    refused = (0, -1) if kind.is_signed else (0,)
    return kind.is_float or all(_is_never(node.rhs, number) for number in refused)


def _is_never(value: Value, number: int) -> bool:
    """Return whether no element of *value* is *number*: others are, or take its place."""
    match value:
        case ops.Select(condition=condition, lhs=instead, rhs=kept):
            is_replaced = _is_true_at(condition, kept, number) or _is_never(kept, number)
            return is_replaced and _is_never(instead, number)
    return _all(value, lambda numbers: numbers != number)


def _is_true_at(condition: Value, value: Value, number: int) -> bool:
    """Return whether *condition* holds wherever *value* is *number*."""
    match condition:
        case ops.Or(lhs=first, rhs=second):
            return _is_true_at(first, value, number) or _is_true_at(second, value, number)
        case ops.Equal(lhs=tested, rhs=wanted):
            return tested is value and _all(wanted, lambda numbers: numbers == number)
    return False


def _all(value: Value, condition: Callable[[Array], Array]) -> bool:
    """Return whether *value* is a constant, and *condition* holds for all its numbers."""
    numbers = array_of(value)
    return numbers is not None and bool(np.all(condition(numbers)))


@composes(ops.Div)
def div_by_anything(node: ops.Div, rewriter: Rewriter) -> Replacement:
    """A quotient by zero is 0, one by -1 the negative."""
    lhs, rhs = terms(rewriter, node.lhs, node.rhs)
    is_zero, is_minus_one, divisor = _guarded(rhs)
    quotient = lhs / divisor
    if is_minus_one is not None:
        quotient = where(is_minus_one, -lhs, quotient)
    return where(is_zero, 0, quotient).value


def _guarded(divisor: Term) -> tuple[Term, Term | None, Term]:
    """Return where *divisor* is zero, where it is -1 if it is signed, and it with ones there."""
    is_zero = divisor.equals(0)
    if not divisor.value.type.kind.is_signed:
        return is_zero, None, where(is_zero, 1, divisor)
    is_minus_one = divisor.equals(-1)
    return is_zero, is_minus_one, where(is_zero.joined(ops.Or, is_minus_one), 1, divisor)


def _has_power(node: ops.Pow) -> bool:
    """True unless an integer may get a negative exponent, which ONNX says nothing about."""
    if node.type.kind.is_float or not node.type.kind.is_signed:
        return True
    match node.rhs:
        case ops.Maximum(rhs=least) | ops.BitwiseAnd(rhs=least):
            return _is_not_negative(least)
    return _is_not_negative(node.rhs)


def _is_not_negative(value: Value) -> bool:
    return _all(value, lambda numbers: numbers >= 0)


@exports(ops.Pow, says=_has_power)
def power(ctx: Writer, node: ops.Pow) -> Value:
    """A power; the low bits of one of uint64, which ONNX has not, are those of one of int64."""
    if node.type.kind is ElementKind.UINT64:
        base = ctx.emit(ops.ConvertTo(node.lhs, ElementKind.INT64))
        return ctx.emit(ops.ConvertTo(ctx.step("Pow", base.type, base, node.rhs), node.type.kind))
    return ctx.node(node, "Pow", node.lhs, node.rhs)


@composes(ops.Pow)
def power_of_anything(node: ops.Pow, rewriter: Rewriter) -> Replacement:
    """A negative power of 1 and -1 is 1 or -1, and 0 of all other integers."""
    base, exponent = terms(rewriter, node.lhs, node.rhs)
    power = base.joined(ops.Pow, exponent.joined(ops.Maximum, 0))
    unit = base.joined(ops.Pow, exponent.joined(ops.BitwiseAnd, 1))
    inverse = where(base.apply(ops.Abs).equals(1), unit, 0)
    return where(exponent < 0, inverse, power).value


def has_modulo(node: ops.Modulo) -> bool:
    """Return whether ONNX has it: of floats, only the remainder with the dividend's sign."""
    return node.fmod if node.type.kind.is_float else divides_safely(node)


@composes(ops.Modulo)
def modulo_of_anything(node: ops.Modulo, rewriter: Rewriter) -> Replacement:
    """A remainder by 0, 1 and -1 is 0; of floats, one with the other sign is moved by a divisor."""
    emit, rhs = rewriter.emit, Term(rewriter, node.rhs)
    if not node.type.kind.is_float:
        return emit(ops.Modulo(node.lhs, _guarded(rhs)[2].value, fmod=node.fmod))
    rest = Term(rewriter, emit(ops.Modulo(node.lhs, node.rhs, fmod=True)))
    is_other = (rest < 0).joined(ops.Xor, rhs < 0)
    return where(is_other & rest.equals(0).apply(ops.Not), rest + rhs, rest).value


def _shifts_within(node: ops.BitShift) -> bool:
    most = node.rhs
    match node.rhs:
        case ops.Minimum(rhs=bound):
            most = bound
    return _all(most, lambda numbers: numbers < node.type.kind.bits)


@exports(ops.BitShift, says=_shifts_within)
def bit_shift(ctx: Writer, node: ops.BitShift) -> Value:
    """Bits shifted by less than there are."""
    direction = node.direction.upper()
    return ctx.node(node, "BitShift", node.lhs, node.rhs, direction=direction)


@composes(ops.BitShift)
def bit_shift_by_anything(node: ops.BitShift, rewriter: Rewriter) -> Replacement:
    """A shift by at least the number of bits leaves none."""
    places, last = Term(rewriter, node.rhs), node.type.kind.bits - 1
    within = places.joined(ops.Minimum, last).value
    shifted = rewriter.emit(ops.BitShift(node.lhs, within, node.direction))
    return where(places <= last, Term(rewriter, shifted), 0).value
