"""Data-dependent operands that determine the size of a result."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from glow_nb.base.size import MAX_SIZE, bounds, hinted, symbols_of, whole_part
from glow_nb.base.types import ElementKind, TensorType
from glow_nb.formats.onnx.importer.context import Context
from glow_nb.formats.onnx.importer.dependence import is_of_a_run
from glow_nb.formats.onnx.importer.open_numbers import OpenNumbers
from glow_nb.hlir import ops
from glow_nb.hlir.graph import Constant, Value
from glow_nb.hlir.ops.formulas.terms import Term, where

INT64 = ElementKind.INT64
ONE = TensorType(INT64, (1,))
LONGEST_SPAN = 1 << 62
"""A span below it and a step up to it add up to an int64."""

Element = int | Value
"""A number that is known now, or a value of one element that a run computes."""


def may_decide(ctx: Context, value: Value) -> bool:
    """Return whether runs compute the integers of *value*, of rank 0 or 1, and may decide sizes."""
    return (
        ctx.decides
        and value.type.rank <= 1
        and not value.type.is_open
        and value.type.kind in (INT64, ElementKind.INT32)
        and not isinstance(value, Constant | OpenNumbers)
        and is_of_a_run(value)
    )


def computed_factors(ctx: Context, value: Value) -> list[float | Value] | None:
    """Return the numbers of a vector of floats, those that a run computes as vectors of a float64.

    None is returned if a run computes none of them, or may not decide sizes.
    """
    is_of_floats = value.type.kind.is_float and value.type.rank == 1 and not value.type.is_open
    if not (ctx.decides and is_of_floats and is_of_a_run(value)):
        return None
    if isinstance(value, Constant):
        return [float(number) for number in value.array]
    parts = value.inputs if isinstance(value, ops.Concat) else (value,)
    found: list[float | Value] = []
    for part in parts:
        if isinstance(part, Constant):
            found += map(float, part.array)
            continue
        wide = ctx.convert(ctx.as_computed(part), ElementKind.FLOAT64)
        found += (ctx.part(wide, 0, index, 1) for index in range(part.type.size))
    return found


def multiplied(ctx: Context, size: int, factor: Value) -> int:
    """Return *size* times a *factor*, rounded down as ONNX's shape inference does, in float32."""
    number = ctx.convert(term_of(ctx, size).value, ElementKind.FLOAT64)
    product = ctx.convert((ctx.term(number) * ctx.term(factor)).value, ElementKind.FLOAT32)
    whole = ctx.term(ctx.convert(ctx.term(product).apply(ops.Floor).value, INT64))
    checked = where(ctx.term(factor) > 0, whole, -1)  # which is no size
    return ctx.decided.size_of(ctx, checked.value, hint=2 * hinted(size))


def size_from(ctx: Context, value: Value, what: str, high: int = MAX_SIZE) -> int:
    """Return a tensor of one integer as a size of up to *high*, which a run may decide."""
    if value.type.size != 1:
        return ctx.known_integer(value, what)  # which says what is wrong
    (number,) = sizes_from(ctx, value, what, (high,))
    return number


def sizes_from(ctx: Context, value: Value, what: str, highs: Sequence[int] = ()) -> tuple[int, ...]:
    """Return an integer tensor of rank 0 or 1 as sizes, some of which a run may decide.

    Those are from 0 up to *highs*, which may be open sizes themselves.
    """
    if not may_decide(ctx, value):
        return ctx.known_integers(value, what)
    elements = ctx.decided.elements_of(ctx, value)
    ends = highs or (MAX_SIZE,) * len(elements)
    return tuple(
        ctx.decided.size_of(ctx, one, high=high) if isinstance(one, Value) else one
        for one, high in zip(elements, ends, strict=True)
    )


def counted_up(ctx: Context, count: int) -> Value:
    """Return ``0, 1, 2, ...``, of a *count* that may be an open size, as int64."""
    if not symbols_of(count):
        return ctx.constant(np.arange(count, dtype=np.int64))
    ones = ctx.broadcast(ctx.sized([1], ONE), (count,))
    return ctx.emit(ops.CumSum(ones, axis=0, exclusive=True))


def term_of(ctx: Context, element: Element) -> Term:
    """Return *element* as a vector of one int64."""
    if isinstance(element, Value):
        return ctx.term(ctx.reshape(ctx.convert(element, INT64), (1,)))
    return ctx.term(ctx.as_computed(ctx.sized([element], ONE)))


def require_equal(ctx: Context, number: Term, size: int, what: str) -> None:
    """Let a run end with an error unless the *number*, a vector of one, is *size*."""
    if symbols_of(size) or size > MAX_SIZE:
        number, size, what = number - term_of(ctx, size), 0, f"{what}_in_excess"
    ctx.decided.require(ctx, number.value, size, what)


def decided_shape(ctx: Context, x: Value, shape: Value, *, keeps: bool) -> list[int]:
    """Return the *shape* that *x* gets, some of whose numbers a run computes.

    A number that follows from the others, as the elements stay, is no size of its own.

    Args:
        ctx: The function under construction.
        x: The tensor.
        shape: A vector of integers, maybe with a -1.
        keeps: Whether a 0 keeps the size of *x*.
    """
    sizes = x.type.shape
    found = list(ctx.decided.elements_of(ctx, shape))
    if not found:
        return []
    for axis, element in enumerate(found):
        if keeps and not isinstance(element, Value) and element == 0 and axis < len(sizes):
            found[axis] = sizes[axis]
    unknown = [axis for axis, element in enumerate(found) if isinstance(element, Value)]
    if unknown and -1 not in [element for element in found if not isinstance(element, Value)]:
        *unknown, last = unknown
        found[last] = -1
    known = prod(n for n in found if not isinstance(n, Value) and n != -1)
    resolved = _resolved(ctx, x, shape, keeps=keeps)
    for axis in unknown:
        left = max(hinted(x.type.size) // max(hinted(known), 1), 1)
        hint = next((n for n in range(2, left + 1) if left % n == 0), 1)
        number = ctx.decided.element(ctx, resolved, axis)
        found[axis] = size = ctx.decided.size_of(ctx, number, low=1, hint=hint)
        known = known * size
    return [n for n in found if not isinstance(n, Value)]


def _resolved(ctx: Context, x: Value, shape: Value, *, keeps: bool) -> Value:
    """Return what computes *shape* for *x* without a -1, or a 0 that keeps a size.

    A run ends with an error if it has several -1, or not as many elements as *x*.
    """
    rank = shape.type.size
    given = ctx.term(ctx.reshape(ctx.convert(shape, INT64), (rank,)))
    if keeps:
        sizes = (*x.type.shape, *(0,) * rank)[:rank]
        own = ctx.as_computed(ctx.sized(sizes, TensorType(INT64, (rank,))))
        given = where(given.equals(0), ctx.term(own), given)
    is_left = given.equals(-1)
    product = _reduced(ctx, ops.ReduceProd, where(is_left, 1, given))
    left = term_of(ctx, x.type.size) / product.joined(ops.Maximum, 1)
    resolved = where(is_left, left, given)
    many = _reduced(ctx, ops.ReduceSum, where(is_left, given, 0)) < -1
    elements = _reduced(ctx, ops.ReduceProd, resolved)
    require_equal(ctx, where(many, -1, elements), x.type.size, "elements")
    return resolved.value


def _reduced(ctx: Context, reduction: type[ops.ReduceSum | ops.ReduceProd], vector: Term) -> Term:
    return ctx.term(ctx.emit(reduction(vector.value, axes=(0,), keep_dims=True)))


def rest_of(size: int, known: int) -> int | None:
    """Return *size* / *known* if that is a polynomial: then it is right for a size of 0, too."""
    if known == 0:
        return None
    times, rest = whole_part(size, known)
    return times if rest == 0 else None


def decided_slice(
    ctx: Context, x: Value, axis: int, start: Element, end: Element, step: int
) -> Value:
    """Return ``x[start:end:step]`` along *axis*, which a run clamps as ONNX says."""
    size = x.type.shape[axis]
    step = max(min(step, MAX_SIZE), -MAX_SIZE)  # a longer one takes one element, too
    most = term_of(ctx, size)
    lowest = 0 if step > 0 else -1
    first = _clamped(term_of(ctx, start), most, 0, lowest)
    last = _clamped(term_of(ctx, end), most, lowest, lowest)
    span = last - first if step > 0 else first - last
    length = (span.joined(ops.Maximum, 0) + (abs(step) - 1)) / abs(step)
    count = ctx.decided.size_of(ctx, length.value, high=size)
    if step == 1 and not isinstance(start, Value) and start == 0:
        return ctx.part(x, axis, 0, count)
    return gathered(ctx, x, axis, first, count, step)


def gathered(ctx: Context, x: Value, axis: int, first: Term, count: int, step: int = 1) -> Value:
    """Return *count* slices of *x* along *axis*, from that on which a run computes."""
    places = first + ctx.term(counted_up(ctx, count)) * step
    return ctx.emit(ops.Gather(x, places.value, axis=axis))


def _clamped(place: Term, size: Term, least: int, shift: int) -> Term:
    """Return *place*, from the end if it is negative, from *least* to *size* + *shift*."""
    place = where(place < 0, place + size, place).joined(ops.Maximum, least)
    return place.joined(ops.Minimum, size + shift)


def decided_expansion(ctx: Context, x: Value, shape: Value) -> tuple[Value, tuple[int, ...]]:
    """Return *x* and the shape that it is to be expanded to, some of whose numbers a run computes.

    Such a number is 1 or the size of *x* where *x* has a size other than 1. Axes of *x* that may
    have 1 element in some runs are expanded already.
    """
    elements = ctx.decided.elements_of(ctx, shape)
    wanted: list[int] = []
    for axis, element in enumerate(elements, x.type.rank - len(elements)):
        size = x.type.shape[axis] if axis >= 0 else 1
        if not isinstance(element, Value):
            wanted.append(element)
        elif size == 1:
            wanted.append(ctx.decided.size_of(ctx, element))
        elif symbols_of(size) and bounds(size)[0] <= 1 <= bounds(size)[1]:
            x = _repeated(ctx, x, axis, element)
            wanted.append(x.type.shape[axis])
        else:
            number = term_of(ctx, element)
            number = where(number.equals(1), term_of(ctx, size), number)
            require_equal(ctx, number, size, "expanded")
            wanted.append(size)
    return x, tuple(wanted)


def _repeated(ctx: Context, x: Value, axis: int, element: Value) -> Value:
    """Return *x* expanded along *axis*, of an open size, by an *element* that a run computes.

    If there is one slice, all of the result are that one.
    """
    size, number = term_of(ctx, x.type.shape[axis]), term_of(ctx, element)
    is_one, number = size.equals(1), where(number.equals(1), size, number)
    excess = where(is_one, 0, number - size)
    ctx.decided.require(ctx, excess.value, 0, "expanded_in_excess")
    count = ctx.decided.size_of(ctx, number.value, hint=hinted(x.type.shape[axis]))
    places = where(is_one, 0, ctx.term(counted_up(ctx, count)))
    return ctx.emit(ops.Gather(x, places.value, axis=axis))


def decided_range(ctx: Context, operands: Sequence[Value]) -> Value:
    """Return ``start, start + delta, ...`` before ``limit``, numbers that a run computes."""
    kind = operands[0].type.kind
    scalars = [ctx.reshape(ctx.as_computed(value), (1,)) for value in operands]
    start, limit, delta = (ctx.term(ctx.convert(value, ElementKind.FLOAT64)) for value in scalars)
    steps = _steps(ctx, start, limit, delta)
    if kind not in (ElementKind.FLOAT32, ElementKind.FLOAT64):
        is_wide = (limit - start).apply(ops.Abs) >= LONGEST_SPAN
        steps = where(is_wide, steps, _whole_steps(ctx, scalars))
    # Without a step there is no length, which is no size.
    count = ctx.decided.size_of(ctx, where(delta.equals(0), -1, steps).value)
    places = counted_up(ctx, count)
    if kind in (ElementKind.FLOAT32, ElementKind.FLOAT64):
        exact = start + ctx.term(ctx.convert(places, ElementKind.FLOAT64)) * delta
        return ctx.convert(exact.value, kind)
    first, step = ctx.term(scalars[0]), ctx.term(scalars[2])
    return (first + ctx.term(ctx.convert(places, kind)) * step).value


def _steps(ctx: Context, start: Term, limit: Term, delta: Term) -> Term:
    """Return how many steps of *delta* there are before *limit*, as int64."""
    steps = ((limit - start) / where(delta.equals(0), 1, delta)).joined(ops.Maximum, 0)
    return ctx.term(ctx.convert(steps.apply(ops.Ceil).value, INT64))


def _whole_steps(ctx: Context, scalars: Sequence[Value]) -> Term:
    """Return the same for integers, exactly, where the span is below the longest one."""
    start, limit, delta = (ctx.term(ctx.convert(value, INT64)) for value in scalars)
    bounded = delta.joined(ops.Minimum, LONGEST_SPAN).joined(ops.Maximum, -LONGEST_SPAN)
    divisor = where(delta.equals(0), 1, bounded)
    rounding = where(delta > 0, divisor - 1, divisor + 1)
    return ((limit - start + rounding) / divisor).joined(ops.Maximum, 0)


def decided_split(ctx: Context, x: Value, axis: int, sizes: Value) -> tuple[Value, ...]:
    """Return parts of *x* along *axis* of *sizes* that a run computes."""
    elements = ctx.decided.elements_of(ctx, sizes)
    begin, parts = term_of(ctx, 0), []
    for element in elements:
        count = element
        if isinstance(element, Value):
            count = ctx.decided.size_of(ctx, element, high=x.type.shape[axis])
        assert not isinstance(count, Value)
        parts.append(gathered(ctx, x, axis, begin, count))
        begin += term_of(ctx, element)
    require_equal(ctx, begin, x.type.shape[axis], "sum")
    return tuple(parts)
