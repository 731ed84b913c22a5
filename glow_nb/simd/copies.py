"""Intrinsics that copy and fill neighbouring elements in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from glow_nb.simd.convert import convert
from glow_nb.simd.lanes import Lanes, call_named, splat_value
from glow_nb.simd.memory import (
    address,
    are_integers,
    is_number,
    load_vector,
    store_vector,
    to_index,
)
from glow_nb.simd.scalars import element_of
from glow_nb.simd.types import INDEX, Pointer

PIECE = 16
"""Elements that are converted, or filled, together."""

_BYTE = ir.IntType(8)
_NO = ir.Constant(ir.IntType(1), 0)


@intrinsic(prefer_literal=True)
def copy(typing: Any, dest: Any, to: Any, source: Any, index: Any, count: Any) -> Any:
    """``copy(p, i, q, j, n)``: copy n elements from q, j on to p, i on; they must not overlap.

    Elements of another kind are converted to that of p.
    """
    if not (isinstance(dest, Pointer) and isinstance(source, Pointer)):
        return None
    if not are_integers(to, index, count):
        return None

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        to, index, count = (
            to_index(context, builder, arguments[k], signature.args[k]) for k in (1, 3, 4)
        )
        if dest == source:
            copy_elements(builder, arguments[0], to, arguments[2], index, dest, count)
            return context.get_dummy_value()

        def convert_piece(number: Any, lanes: int) -> None:
            start = address(builder, arguments[2], builder.add(index, number), source.kind)
            loaded = load_vector(builder, start, source.kind, lanes)
            vector = convert(Lanes(builder, loaded, source.kind, lanes), dest.kind).value
            place = address(builder, arguments[0], builder.add(to, number), dest.kind)
            store_vector(builder, place, vector, dest.kind)

        _in_pieces(builder, count, convert_piece)
        return context.get_dummy_value()

    return types.void(dest, to, source, index, count), codegen


@intrinsic(prefer_literal=True)
def clear(typing: Any, dest: Any, to: Any, count: Any) -> Any:
    """``clear(p, i, n)``: write n zeros from element i on."""
    if not (isinstance(dest, Pointer) and are_integers(to, count)):
        return None

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        to, count = (to_index(context, builder, arguments[k], signature.args[k]) for k in (1, 2))
        clear_elements(builder, arguments[0], dest, to, count)
        return context.get_dummy_value()

    return types.void(dest, to, count), codegen


@intrinsic(prefer_literal=True)
def fill(typing: Any, dest: Any, to: Any, number: Any, count: Any) -> Any:
    """``fill(p, i, x, n)``: write the number x to n elements from element i on."""
    if not (isinstance(dest, Pointer) and are_integers(to, count) and is_number(number)):
        return None

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        to, count = (to_index(context, builder, arguments[k], signature.args[k]) for k in (1, 3))
        element = element_of(context, builder, arguments[2], signature.args[2], dest.kind)

        def fill_piece(number: Any, lanes: int) -> None:
            place = address(builder, arguments[0], builder.add(to, number), dest.kind)
            store_vector(builder, place, splat_value(builder, element, lanes), dest.kind)

        _in_pieces(builder, count, fill_piece)
        return context.get_dummy_value()

    return types.void(dest, to, types.unliteral(number), count), codegen


def _in_pieces(builder: Any, count: Any, write: Callable[[Any, int], None]) -> None:
    """Write a loop over *count* elements in pieces, and one over the rest.

    Args:
        builder: Receives the code.
        count: LLVM value.
        write: Writes what is done from an element on, an LLVM value, with this number of lanes.
    """
    whole = builder.and_(count, ir.Constant(INDEX, -PIECE))
    for start, end, lanes in ((ir.Constant(INDEX, 0), whole, PIECE), (whole, count, 1)):
        step = ir.Constant(INDEX, lanes)
        with cgutils.for_range_slice(builder, start, end, step, intp=INDEX) as (number, _):
            write(number, lanes)


def copy_elements(
    builder: Any, dest: Any, to: Any, source: Any, index: Any, memory: Pointer, count: Any
) -> None:
    """Copy *count* elements; all but *memory*, the type of both pointers, are LLVM values."""
    places = [address(builder, dest, to, memory.kind), address(builder, source, index, memory.kind)]
    size = builder.mul(count, ir.Constant(INDEX, memory.kind.size_bytes))
    call_named(builder, "llvm.memcpy.p0.p0.i64", ir.VoidType(), [*places, size, _NO])


def clear_elements(
    builder: Any, dest: Any, memory: Pointer, to: Any, count: Any, byte: int = 0
) -> None:
    """Write *count* zeros from element *to* on, both LLVM values, or elements of another *byte*."""
    place = address(builder, dest, to, memory.kind)
    size = builder.mul(count, ir.Constant(INDEX, memory.kind.size_bytes))
    value = ir.Constant(_BYTE, byte % 256)
    call_named(builder, "llvm.memset.p0.i64", ir.VoidType(), [place, value, size, _NO])
