"""Integers and loops of generated text as few LLVM instructions, where numba writes branches.

Kernels count and cut up ranges in their outer loops. For ``x // 3`` numba emits six blocks, which
test for a divisor of zero and for an overflow; for ``for i in range(n)`` it emits eight, which test
for a step of zero and keep the range in memory. LLVM takes longer to get rid of them than to
compile some inner loops. What is emitted here gives the same values without a branch::

    x // d, x % d    divide towards zero; if the rest has not the sign of d, go one further down;
                     0 if d is 0, as numba has it with the error model of NumPy
    range            count = (stop - start) / step for a constant step > 0, and 1 if there is a rest
    next             is_valid = count > 0; count -= 1; value, next = next, next + step

A range whose step is negative or not constant is left to numba.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types

Lowering = Callable[..., Any]
"""``(builder, arguments)`` to a value, as a numba context returns it for a function."""

_INT64 = types.int64
_STATE, _ITERATOR = types.range_state64_type, types.range_iter64_type
_WORD = ir.IntType(64)


def compact(key: object, operands: tuple[Any, ...], usual: Lowering) -> Lowering:
    """Return what emits a call of the function *key*: the *usual* emitter, or a shorter one.

    Args:
        key: The function, by what numba finds its implementation.
        operands: numba's types of its operands.
        usual: numba's implementation, for all that has no shorter one.
    """
    shorter = _SHORTER.get((key, operands))
    if shorter is None:
        return usual

    def emit(builder: Any, arguments: tuple[Any, ...], loc: Any = None) -> Any:
        value = shorter(builder, *arguments)
        return usual(builder, arguments) if value is None else value

    return emit


def _floor_divide(builder: Any, dividend: Any, divisor: Any) -> Any:
    quotient, _, goes_down = _division(builder, dividend, divisor)
    return builder.add(quotient, builder.sext(goes_down, _WORD))


def _floor_remainder(builder: Any, dividend: Any, divisor: Any) -> Any:
    _, rest, goes_down = _division(builder, dividend, divisor)
    return builder.select(goes_down, builder.add(rest, divisor), rest)


def _division(builder: Any, dividend: Any, divisor: Any) -> tuple[Any, Any, Any]:
    """Return quotient and rest of the division towards zero, and whether the floor is one below."""
    zero = _WORD(0)
    if _is_positive(divisor):
        rest = builder.srem(dividend, divisor)
        return builder.sdiv(dividend, divisor), rest, builder.icmp_signed("<", rest, zero)
    has_none = builder.or_(
        builder.icmp_signed("==", divisor, zero),
        builder.and_(
            builder.icmp_signed("==", divisor, _WORD(-1)),
            builder.icmp_signed("==", dividend, _WORD(-(1 << 63))),
        ),
    )
    by = builder.select(has_none, _WORD(1), divisor)
    quotient = builder.select(has_none, zero, builder.sdiv(dividend, by))
    rest = builder.srem(dividend, by)
    differs = builder.icmp_signed("<", builder.xor(rest, divisor), zero)
    return quotient, rest, builder.and_(builder.icmp_signed("!=", rest, zero), differs)


def _is_positive(value: Any) -> bool:
    """Return whether *value* is a constant above zero."""
    return isinstance(value, ir.Constant) and isinstance(value.constant, int) and value.constant > 0


def _range(builder: Any, *bounds: Any) -> Any:
    """Return a range as numba keeps it: start, stop and step."""
    words = slice(*bounds)
    start, step = words.start or _WORD(0), words.step or _WORD(1)
    return _struct(builder, start, words.stop, step)


def _begin(builder: Any, state: Any) -> Any:
    """Return an iterator as numba keeps it: where its next value and its count are, stop, step."""
    step = _step_of(state)
    if not _is_positive(step):
        return None
    start, stop = (builder.extract_value(state, index) for index in range(2))
    count = builder.sub(stop, start)
    if step.constant != 1:
        is_uneven = builder.icmp_signed(">", builder.srem(count, step), _WORD(0))
        count = builder.add(builder.sdiv(count, step), builder.zext(is_uneven, _WORD))
    value_place, count_place = (cgutils.alloca_once(builder, _WORD) for _ in range(2))
    builder.store(start, value_place)
    builder.store(count, count_place)
    return _struct(builder, value_place, stop, step, count_place)


def _next(builder: Any, iterator: Any) -> Any:
    """Return the next value, and whether there is one."""
    place, _, step, count_place = (builder.extract_value(iterator, index) for index in range(4))
    value, count = builder.load(place, typ=_WORD), builder.load(count_place, typ=_WORD)
    is_valid = builder.icmp_signed(">", count, _WORD(0))
    builder.store(builder.add(value, step), place)
    builder.store(builder.sub(count, _WORD(1)), count_place)
    return _struct(builder, value, is_valid)


def _struct(builder: Any, *members: Any) -> Any:
    struct = ir.Constant(ir.LiteralStructType([member.type for member in members]), ir.Undefined)
    for index, member in enumerate(members):
        struct = builder.insert_value(struct, member, index)
    return struct


def _step_of(struct: Any) -> Any:
    """Return the step of what :func:`_range` made; None of any other value."""
    is_made = isinstance(struct, ir.InsertValue) and struct.indices == [2]
    return struct.operands[1] if is_made else None


_TWO = _INT64, _INT64
_SHORTER: Mapping[tuple[object, tuple[Any, ...]], Lowering] = {
    (operator.floordiv, _TWO): _floor_divide,
    (operator.mod, _TWO): _floor_remainder,
    (range, (_INT64,)): _range,
    (range, _TWO): _range,
    (range, (*_TWO, _INT64)): _range,
    ("getiter", (_STATE,)): _begin,
    ("iternext", (_ITERATOR,)): _next,
}
