"""Stores past the caches, for results that are larger than the last of them.

An ordinary store reads its cache line first, and evicts another one that may still be needed.
A streaming store does neither, but it needs whole aligned lines to be of use, and an order of its
own: what it writes is seen by other threads after a fence only.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from glow_nb.base.alignment import CACHE_LINE_BYTES
from glow_nb.base.types import ElementKind
from glow_nb.simd.memory import address, to_index
from glow_nb.simd.types import INDEX, Pointer, Vec


@intrinsic(prefer_literal=True)
def store_streaming(typing: Any, pointer: Any, index: Any, vector: Any) -> Any:
    """``store_streaming(p, i, v)``: write all lanes past the caches; element i begins a line."""
    if not (isinstance(pointer, Pointer) and isinstance(vector, Vec)):
        return None
    if pointer.kind is not vector.kind or pointer.kind is ElementKind.BOOL:
        return None
    if vector.lanes * vector.kind.size_bytes % CACHE_LINE_BYTES:
        return None

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        index = to_index(context, builder, arguments[1], signature.args[1])
        place = address(builder, arguments[0], index, pointer.kind)
        typed_place = builder.bitcast(place, arguments[2].type.as_pointer())
        stored = builder.store(arguments[2], typed_place, align=CACHE_LINE_BYTES)
        one = builder.module.add_metadata([ir.Constant(ir.IntType(32), 1)])
        stored.set_metadata("nontemporal", one)
        return context.get_dummy_value()

    return types.void(pointer, index, vector), codegen


@intrinsic(prefer_literal=True)
def to_line(typing: Any, pointer: Any) -> Any:
    """``to_line(p)``: elements from p to the first one that begins a cache line."""
    if not isinstance(pointer, Pointer):
        return None

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        number = builder.ptrtoint(arguments[0], INDEX)
        rest = builder.and_(builder.neg(number), ir.Constant(INDEX, CACHE_LINE_BYTES - 1))
        return builder.udiv(rest, ir.Constant(INDEX, pointer.kind.size_bytes))

    return types.int64(pointer), codegen


@intrinsic(prefer_literal=True)
def fence(typing: Any) -> Any:
    """``fence()``: all that was written before is seen by other threads before what follows."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.fence("seq_cst")
        return context.get_dummy_value()

    return types.void(), codegen
