"""The inner loop of every matrix product: sums over neighbouring inputs in a register tile."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from llvmlite import ir
from numba.core import cgutils
from numba.extending import intrinsic

from glow_nb.base.alignment import CACHE_LINE_BYTES
from glow_nb.base.dot_instruction import DOTS, SINGLE, DotInstruction, dots_from_outside
from glow_nb.simd.loops import turns
from glow_nb.simd.memory import (
    Count,
    address,
    are_literal,
    count_of,
    hint_second_level,
    literal,
    to_index,
)
from glow_nb.simd.outer_product import PLAIN, Groups, SinglePairs, outer_product
from glow_nb.simd.result_blocks import Blocks
from glow_nb.simd.taps import taps_in
from glow_nb.simd.types import INDEX, Pointer, RegisterTile

TURNS, TURNS_OF_GROUPS = 4, 2
"""Steps that are written in a row, of single products and of those of groups of factors.

Networks of floats take 0.96 to 1.00 of the time so, those of bytes 0.98 to 1.00; with four steps of
groups in a row, they take longer (docs/history.md)."""

MEANING = """``{name}(t, x, i, stride, step, w, j, row, columns, count, ahead, pace)``.

``t[r, v] += sum over c < count, f < {factors} of x[i + r * stride + c * step + f] *
w[j + c * row + v * {factors} + f]`` for every row r and every column v below *columns*; nothing is
read for the others. Meanwhile each step brings the *pace* weights from ``w[ahead + c * pace]`` on,
which a later call reads, into the second-level cache; if *pace* is no literal, as many as a row
has in their place. *columns* is a literal.
"""

STREAMS_MEANING = """``{name}(t, x, i, stride, step, w, j, row, columns, count, streams, gap)``.

``t[r, v] += sum over c < count, s < streams, f < {factors} of
x[i + r * stride + (c + s * gap) * step + f] * w[j + (c + s * gap) * row + v * {factors} + f]`` for
every row r and every column v below *columns*: weights come from *streams* places at a time, which
memory delivers faster than one. Literals are *stride*, *step*, *row*, *columns*, *streams* and
*gap*.
"""


Form = SinglePairs | Groups | Blocks
"""How a step is made."""


def form_of(dot: DotInstruction) -> Form:
    """Return how the steps of *dot* are made."""
    if dot is SINGLE:
        return PLAIN
    return Blocks(dot) if dot.is_block else Groups(dot)


def dot_in(name: str, form: Form) -> Any:
    """Return the function *name*, with steps in *form*."""

    def tile_dot(
        typing: Any,
        tile: Any,
        source: Any,
        start: Any,
        stride: Any,
        step: Any,
        weights: Any,
        index: Any,
        row: Any,
        columns: Any,
        count: Any,
        ahead: Any,
        pace: Any,
    ) -> Any:
        if not (_is_dot(tile, source, weights) and are_literal(columns)):
            return None
        operands = (
            *(tile, source, start, stride, step),
            *(weights, index, row, columns, count, ahead, pace),
        )

        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            later = to_index(context, builder, arguments[10], signature.args[10])
            each = count_of(context, builder, arguments[11], signature.args[11])
            most = each if isinstance(each, int) else literal(columns) * form.dot.group
            lines = range(0, most, CACHE_LINE_BYTES // weights.kind.size_bytes)

            def fetch(step: Any) -> None:
                begin = _times(builder, step, each, later)
                for offset in lines:
                    line = builder.add(begin, ir.Constant(INDEX, offset))
                    hint_second_level(builder, address(builder, arguments[5], line, weights.kind))

            return _summed(context, builder, signature, arguments, form, (0,), fetch)

        return tile(*operands), codegen

    tile_dot.__doc__ = MEANING.format(name=name, factors=form.dot.group)
    return intrinsic(prefer_literal=True)(tile_dot)


def streams_in(name: str, form: Form) -> Any:
    """Return the function *name*, with steps in *form*, of weights from several places."""

    def tile_streams(
        typing: Any,
        tile: Any,
        source: Any,
        start: Any,
        stride: Any,
        step: Any,
        weights: Any,
        index: Any,
        row: Any,
        columns: Any,
        count: Any,
        streams: Any,
        gap: Any,
    ) -> Any:
        literals = (stride, step, row, columns, streams, gap)
        if not (_is_dot(tile, source, weights) and are_literal(*literals)):
            return None
        operands = (
            *(tile, source, start, stride, step),
            *(weights, index, row, columns, count, streams, gap),
        )
        gaps = tuple(stream * literal(gap) for stream in range(literal(streams)))

        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return _summed(context, builder, signature, arguments, form, gaps)

        return tile(*operands), codegen

    tile_streams.__doc__ = STREAMS_MEANING.format(name=name, factors=form.dot.group)
    return intrinsic(prefer_literal=True)(tile_streams)


def _is_dot(tile: Any, source: Any, weights: Any) -> bool:
    pointers = isinstance(source, Pointer) and isinstance(weights, Pointer)
    return isinstance(tile, RegisterTile) and pointers


def _summed(
    context: Any,
    builder: Any,
    signature: Any,
    arguments: Any,
    form: Form,
    gaps: tuple[int, ...],
    fetch: Callable[[Any], None] | None = None,
) -> Any:
    """Write the loop of a dot; its turn ``c`` calls ``fetch(c)`` and takes a step for each gap.

    These are the steps ``c + gap``. The first ten arguments are those of ``tile_dot``.
    """
    tile, source, _, _, _, weights, _, _, columns, _ = signature.args[:10]
    first, place, length = (
        to_index(context, builder, arguments[number], signature.args[number])
        for number in (2, 6, 9)
    )
    stride, step, row = (
        count_of(context, builder, arguments[number], signature.args[number])
        for number in (3, 4, 7)
    )
    sums = form.begin(builder, arguments[0], tile)
    total = cgutils.alloca_once(builder, sums.type)
    builder.store(sums, total)
    at_once = TURNS if form.dot.group == 1 else TURNS_OF_GROUPS
    at_once = at_once if len(gaps) == 1 else 1  # a turn of streams has several steps in any case
    with turns(builder, length, at_once) as turn:
        if fetch:
            fetch(turn)
        value = builder.load(total)
        for gap in gaps:
            number = builder.add(turn, ir.Constant(INDEX, gap)) if gap else turn
            left = (arguments[1], source, _times(builder, number, step, first))
            right = (arguments[5], weights, _times(builder, number, row, place))
            numbers = stride, literal(columns)
            if isinstance(form, Blocks):
                value = form.step(builder, value, tile, left, right, *numbers)
            else:
                value = outer_product(builder, value, tile, left, right, *numbers, form)
        builder.store(value, total)
    return form.end(builder, builder.load(total), tile)


def _times(builder: Any, number: Any, each: Count, begin: Any) -> Any:
    """Return ``begin + number * each``."""
    factor = ir.Constant(INDEX, each) if isinstance(each, int) else each
    return builder.add(begin, builder.mul(number, factor))


@cache
def functions_of(dot: DotInstruction) -> dict[str, Any]:
    """Return the functions of generated source that take steps of *dot*, by name."""
    form = form_of(dot)
    made = {dot.name: dot_in(dot.name, form), dot.streams: streams_in(dot.streams, form)}
    return made | ({dot.taps: taps_in(dot.taps, form)} if isinstance(form, Groups) else {})


def functions_from_outside() -> dict[str, Any]:
    """Return the functions of the rows that users added."""
    return {name: made for dot in dots_from_outside() for name, made in functions_of(dot).items()}


FUNCTIONS = {
    name: made
    for dot in DOTS.values()
    if not (dot.is_paired or dot.is_matrix)
    for name, made in functions_of(dot).items()
}
"""The functions of the rows of this package."""
