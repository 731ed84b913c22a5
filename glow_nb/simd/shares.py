"""The share of a thread in a :func:`~glow_nb.scheduling.thread_grid.thread_grid`, as one function
of a kernel.

Written out in the text of each kernel, the choice of a grid took a quarter of the time to compile
a convolution.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from glow_nb.scheduling.thread_grid import WORTH
from glow_nb.simd.memory import are_literal, literal, to_index
from glow_nb.simd.types import INDEX

_RANGES = types.UniTuple(types.int64, 4)
_WORDS = ir.LiteralStructType([INDEX] * 4)
_ONE = ir.Constant(INDEX, 1)


@intrinsic(prefer_literal=True)
def own_share(
    typing: Any, thread: Any, threads: Any, units: Any, panels: Any, panels_first: Any
) -> Any:
    """``own_share(thread, threads, m, n, first)``: part of ``m x n`` cells that a thread works on.

    ``(unit, unit_end, panel_begin, panel_end)``: ranges of m and of n. A grid of threads cuts both.
    If *first* is 1, the grid that cuts n most is preferred, and otherwise the one that cuts m most;
    another one is taken only if its largest share is smaller by one part in 16. Threads beyond the
    grid get no panels.
    """
    if not are_literal(panels_first):
        return None

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pairs = zip(arguments[2:4], (units, panels), strict=True)
        sizes = (to_index(context, builder, size, type) for size, type in pairs)
        return builder.call(
            _share_function(builder.module, literal(panels_first) == 1), [*arguments[:2], *sizes]
        )

    return _RANGES(types.int64, types.int64, units, panels, panels_first), codegen


def _share_function(module: Any, panels_first: bool) -> Any:
    """Return the LLVM function of the shares in *module*: ``(thread, threads, m, n)``."""
    name = f"own_share_{'panels' if panels_first else 'units'}_first"
    if name in module.globals:
        return module.globals[name]
    function = ir.Function(module, ir.FunctionType(_WORDS, [INDEX] * 4), name)
    function.linkage = "internal"
    function.attributes.add("noinline")
    builder = ir.IRBuilder(function.append_basic_block())
    thread, threads, units, panels = function.args
    columns = _columns_of_grid(builder, threads, units, panels, panels_first)
    rows = _rows(builder, units, threads, columns)
    row, column = builder.urem(thread, rows), builder.udiv(thread, rows)
    share = ir.Constant(_WORDS, ir.Undefined)
    for axis, (part, size, parts) in enumerate(((row, units, rows), (column, panels, columns))):
        for side, number in enumerate((part, builder.add(part, _ONE))):
            bound = builder.udiv(builder.mul(number, size), parts)
            share = builder.insert_value(share, _least(builder, bound, size), 2 * axis + side)
    builder.ret(share)
    return function


def _columns_of_grid(
    builder: Any, threads: Any, units: Any, panels: Any, panels_first: bool
) -> Any:
    """Return into how many ranges the *panels* are cut."""
    best = cgutils.alloca_once_value(builder, _ONE)
    least = cgutils.alloca_once_value(builder, builder.mul(INDEX(2), builder.mul(units, panels)))
    most = _least(builder, threads, panels)
    with cgutils.for_range(builder, most, intp=INDEX) as loop:
        columns = builder.sub(most, loop.index) if panels_first else builder.add(loop.index, _ONE)
        rows = _rows(builder, units, threads, columns)
        cell = builder.mul(_largest(builder, units, rows), _largest(builder, panels, columns))
        parts = builder.mul(cell, INDEX(WORTH))
        enough = builder.mul(builder.load(least), INDEX(WORTH - 1))
        is_smaller = builder.icmp_unsigned("<", parts, enough)
        for place, value in ((best, columns), (least, cell)):
            builder.store(builder.select(is_smaller, value, builder.load(place)), place)
    return builder.load(best)


def _rows(builder: Any, units: Any, threads: Any, columns: Any) -> Any:
    """Return into how many ranges the *units* are cut if the panels are cut into *columns*."""
    rows = _least(builder, builder.udiv(threads, columns), units)
    return builder.select(builder.icmp_unsigned("<", rows, _ONE), _ONE, rows)


def _least(builder: Any, lhs: Any, rhs: Any) -> Any:
    return builder.select(builder.icmp_unsigned("<", lhs, rhs), lhs, rhs)


def _largest(builder: Any, size: Any, parts: Any) -> Any:
    """Return the length of the longest of *parts* parts of *size*."""
    return builder.udiv(builder.add(size, builder.sub(parts, _ONE)), parts)
