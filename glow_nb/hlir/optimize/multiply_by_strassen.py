"""Large matrix products by Strassen's algorithm: 7 products of halves in place of 8.

It is to matrix products what Winograd's algorithm is to convolutions: fewer multiply-adds than the
sums have, for some additions. With both operands cut into quarters (Strassen, "Gaussian elimination
is not optimal", Numerische Mathematik 13, 1969)::

    m1 = (x11 + x22) (w11 + w22)    m5 = (x11 + x12) w22              y11 = m1 + m4 - m5 + m7
    m2 = (x21 + x22) w11            m6 = (x21 - x11) (w11 + w12)      y12 = m3 + m5
    m3 = x11 (w12 - w22)            m7 = (x12 - x22) (w21 + w22)      y21 = m2 + m4
    m4 = x22 (w21 - w11)                                              y22 = m1 - m2 + m3 + m6

It is in no pipeline by default, since it is not free:

- Weights take 7/4 of their memory, and 49/16 where halves are cut again.
- Rounding errors are relative to the largest numbers of two rows of x, which lie half of the rows
  apart, and of two columns of w, and no longer to each sum. Sums of two numbers may overflow.
- A NaN or an infinity of x makes its row of y NaN. If it stands in the upper left or in the lower
  right quarter, half of the row that lies half of the rows away becomes NaN, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from glow_nb.arguments import whole_number
from glow_nb.hlir.graph import Constant, Function, Node, Value
from glow_nb.hlir.ops import Add, Concat, MatMul, Slice, Sub
from glow_nb.hlir.passes import register_pass
from glow_nb.hlir.rewrite import Rewriter, rewrite
from glow_nb.schema import operands_of
from glow_nb.types import ElementKind

LEAST_ROWS, LEAST_INNER, LEAST_COLUMNS = 128, 512, 512
"""The smallest products that are cut. On one Zen 4 core, those of halves then run at the rate of
the whole: products of 128 rows by 768 x 3,072 are 1.11 times as fast, of 1,500 by 512 x 512 1.09
times."""

COMPUTED_FLOATS = frozenset({ElementKind.FLOAT32, ElementKind.FLOAT64})
"""Kinds whose products are cut: smaller ones lose too many digits."""

Quarters = tuple[Value, Value, Value, Value]
"""Upper left, upper right, lower left, lower right."""


@register_pass
def multiply_by_strassen(
    function: Function,
    *,
    rows: int = LEAST_ROWS,
    inner: int = LEAST_INNER,
    columns: int = LEAST_COLUMNS,
) -> Function:
    """Cut matrix products with constant matrices into products of halves.

    A product of ``float32`` or ``float64`` is cut if its rows, the products of a sum, and its
    columns are even, and at least *rows*, *inner* and *columns*. Elementwise nodes that follow are
    applied to each quarter, and products that follow take quarters, so that none are put together
    for them. Where the pass runs again, it cuts halves that are large enough once more.

    ::

        %y = mat_mul(%x, %w : <512 x 2048>)
        %z = relu(%y)
        ->
        %m1 = mat_mul(%x11 + %x22, %w11 + %w22 : <256 x 1024>)    // and six more
        %y11 = %m1 + %m4 - %m5 + %m7                              // and three more
        %z11 = relu(%y11)                                         // and three more
        %z = concat(concat(%z11, %z12), concat(%z21, %z22))
    """
    limits = {"rows": rows, "inner": inner, "columns": columns}
    least = [whole_number(name, limit, 0) for name, limit in limits.items()]
    known: dict[Value, Quarters] = {}

    def rule(node: Node, rewriter: Rewriter) -> Value | None:
        if isinstance(node, MatMul) and _is_large(node, least):
            quarters = _multiplied(rewriter, _quarters(rewriter, node.lhs, known), node.rhs)
        elif _is_elementwise(node, known):
            quarters = _applied(rewriter, node, known)
        else:
            return None
        whole = _joined(rewriter, quarters, node.name)
        known[whole] = quarters
        return whole

    return rewrite(function, rule)


def _is_large(node: MatMul, least: Sequence[int]) -> bool:
    """Return whether *node* is a single product of floats with a constant, of such sizes."""
    lhs, rhs = node.lhs.type, node.rhs.type
    sizes = (*lhs.shape[-2:], *rhs.shape[1:])
    return (
        isinstance(node.rhs, Constant)
        and (rhs.rank, len(sizes)) == (2, 3)
        and node.predicate is None
        and node.type.kind in COMPUTED_FLOATS
        and lhs.size == sizes[0] * sizes[1]
        and all(size >= max(2, few) for size, few in zip(sizes, least, strict=True))
        and not any(size % 2 for size in sizes)
    )


def _is_elementwise(node: Node, known: Mapping[Value, Quarters]) -> bool:
    """Return whether *node* is elementwise, and reads one of those *known*, as large as itself."""
    return (
        node.data_parallel
        and node.predicate is None
        and any(value in known and value.type.shape == node.type.shape
                for value in operands_of(node) if isinstance(value, Value))
    )  # fmt: skip


def _multiplied(rewriter: Rewriter, lhs: Quarters, rhs: Value) -> Quarters:
    """Emit the seven products of the quarters of both operands, and their sums."""

    def add(left: Value, right: Value) -> Value:
        return rewriter.emit(Add(left, right))

    def sub(left: Value, right: Value) -> Value:
        return rewriter.emit(Sub(left, right))

    def product(left: Value, right: Value) -> Value:
        return rewriter.emit(MatMul(left, right))

    x11, x12, x21, x22 = lhs
    w11, w12, w21, w22 = _quarters(rewriter, rhs, {})
    m1 = product(add(x11, x22), add(w11, w22))
    m2 = product(add(x21, x22), w11)
    m3 = product(x11, sub(w12, w22))
    m4 = product(x22, sub(w21, w11))
    m5 = product(add(x11, x12), w22)
    m6 = product(sub(x21, x11), add(w11, w12))
    m7 = product(sub(x12, x22), add(w21, w22))
    y11 = add(sub(add(m1, m4), m5), m7)
    y22 = add(add(sub(m1, m2), m3), m6)
    return y11, add(m3, m5), add(m2, m4), y22


def _applied(rewriter: Rewriter, node: Node, known: Mapping[Value, Quarters]) -> Quarters:
    """Emit the elementwise *node* for each quarter of its operands."""
    cut: dict[Value, Quarters] = {}

    def emitted(number: int) -> Value:
        def quarter(value: Value) -> Value:
            if value not in cut:
                cut[value] = _quarters(rewriter, value, known)
            return cut[value][number]

        return rewriter.emit(node.map_operands(quarter).copied(name=""))

    return emitted(0), emitted(1), emitted(2), emitted(3)


def _quarters(rewriter: Rewriter, value: Value, known: Mapping[Value, Quarters]) -> Quarters:
    """Return the quarters of *value*, slices unless *known*; what is repeated is not cut."""
    if value in known:
        return known[value]
    shape = value.type.shape

    def quarter(*place: int) -> Value:
        starts, stops = [0] * len(shape), list(shape)
        for axis, number in zip((-2, -1), place, strict=True):
            if shape[axis] > 1:
                half = shape[axis] // 2
                starts[axis], stops[axis] = number * half, (number + 1) * half
        if tuple(stops) == shape and not any(starts):
            return value
        return rewriter.emit(Slice(value, tuple(starts), tuple(stops), (1,) * len(shape)))

    return quarter(0, 0), quarter(0, 1), quarter(1, 0), quarter(1, 1)


def _joined(rewriter: Rewriter, quarters: Quarters, name: str) -> Value:
    """Emit the whole, called *name*: row of quarters after row."""
    axis = quarters[0].type.rank - 1
    rows = tuple(rewriter.emit(Concat(pair, axis)) for pair in (quarters[:2], quarters[2:]))
    return rewriter.emit(Concat(rows, axis - 1), name)
