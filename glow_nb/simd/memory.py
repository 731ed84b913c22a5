"""Intrinsics that touch memory: vector and scalar loads and stores, addresses, constants.

Addresses are made by ``getelementptr`` only, and every access is aligned to one element, no more:
tensors bound by the user have no better alignment.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from glow_nb.base.types import ElementKind
from glow_nb.simd.lanes import (
    BOOL,
    FLOAT32,
    I32,
    call_named,
    constant_vector,
    first_lanes,
    splat_value,
)
from glow_nb.simd.pieces import load_pieces, store_pieces
from glow_nb.simd.types import (
    INDEX,
    MEMORY_BOOL,
    Pointer,
    Vec,
    llvm_memory_element,
)

LEAST_MASKED_BYTES = 4
"""Size of the elements from which on processors load vectors by a mask."""

_SECOND_LEVEL = 2
"""How near a prefetch brings data, as LLVM counts it."""


def address(builder: Any, pointer: Any, index: Any, kind: ElementKind) -> Any:
    """Return the LLVM address of element *index* (int64)."""
    return builder.gep(pointer, [index], source_etype=llvm_memory_element(kind))


def load_vector(builder: Any, place: Any, kind: ElementKind, lanes: int) -> Any:
    """Load *lanes* elements from the LLVM address *place*."""
    memory = ir.VectorType(llvm_memory_element(kind), lanes)
    value = builder.load(place, align=kind.size_bytes, typ=memory)
    return _from_memory(builder, value, kind)


def store_vector(builder: Any, place: Any, value: Any, kind: ElementKind) -> None:
    """Store an LLVM vector or element, in its form in memory, at the address *place*."""
    memory = _to_memory(builder, value, kind)
    typed_place = builder.bitcast(place, memory.type.as_pointer())
    builder.store(memory, typed_place, align=kind.size_bytes)


def load_first_lanes(builder: Any, place: Any, kind: ElementKind, lanes: int, count: Any) -> Any:
    """Load the first *count* (int64) of *lanes* elements, and zeros after them."""
    if not isinstance(count, ir.Constant) and kind.size_bytes < LEAST_MASKED_BYTES:
        return _from_memory(builder, load_pieces(builder, place, kind, lanes, count), kind)
    return load_vector_masked(builder, place, kind, lanes, first_lanes(builder, count, lanes))


def store_counted(builder: Any, place: Any, value: Any, kind: ElementKind, count: Any) -> None:
    """Store the first *count* (int64) lanes of an LLVM vector; a run says how many."""
    store_pieces(builder, place, _to_memory(builder, value, kind), kind, count)


def store_first_lanes(builder: Any, place: Any, value: Any, kind: ElementKind, count: int) -> None:
    """Store the first *count* lanes of an LLVM vector in whole pieces of ..., 4, 2, 1 lanes.

    A masked store takes many times as long on some processors (vmaskmovps on Zen: 40 operations).
    """
    memory = _to_memory(builder, value, kind)
    count, start = min(count, memory.type.count), 0
    for bit in reversed(range(count.bit_length())):
        size = count & 1 << bit
        if not size:
            continue
        numbers = constant_vector(ElementKind.INT32, range(start, start + size))
        piece = builder.shuffle_vector(memory, ir.Constant(memory.type, ir.Undefined), numbers)
        at = builder.gep(place, [ir.Constant(INDEX, start)], source_etype=llvm_memory_element(kind))
        typed_place = builder.bitcast(at, piece.type.as_pointer())
        builder.store(piece, typed_place, align=kind.size_bytes)
        start += size


def load_vector_masked(builder: Any, place: Any, kind: ElementKind, lanes: int, mask: Any) -> Any:
    """Load the lanes for which *mask* is true; the others are zero and not touched."""
    memory = ir.VectorType(llvm_memory_element(kind), lanes)
    name = f"llvm.masked.load.{_vector_suffix(kind, lanes)}.p0"
    align, zero = ir.Constant(I32, kind.size_bytes), ir.Constant(memory, None)
    value = call_named(builder, name, memory, [place, align, mask, zero])
    return _from_memory(builder, value, kind)


def load_scalar(builder: Any, place: Any, kind: ElementKind) -> Any:
    """Load one element, as the LLVM element of a vector of *kind*."""
    element = llvm_memory_element(kind)
    value = builder.load(place, align=kind.size_bytes, typ=element)
    return builder.icmp_unsigned("!=", value, ir.Constant(element, 0)) if kind is BOOL else value


def _vector_suffix(kind: ElementKind, lanes: int) -> str:
    names = {FLOAT32: "f32", ElementKind.FLOAT64: "f64"}
    return f"v{lanes}{names.get(kind) or f'i{kind.size_bytes * 8}'}"


def _from_memory(builder: Any, value: Any, kind: ElementKind) -> Any:
    if kind is not BOOL:
        return value
    return builder.icmp_unsigned("!=", value, ir.Constant(value.type, None))


def _to_memory(builder: Any, value: Any, kind: ElementKind) -> Any:
    if kind is not BOOL:
        return value
    if isinstance(value.type, ir.VectorType):
        return builder.zext(value, ir.VectorType(MEMORY_BOOL, value.type.count))
    return builder.zext(value, MEMORY_BOOL)


def literal(value_type: Any) -> int:
    """Return the integer of a literal argument."""
    return int(value_type.literal_value)


def are_literal(*value_types: Any) -> bool:
    """Return whether every type is that of an integer literal."""
    return all(isinstance(each, types.IntegerLiteral) for each in value_types)


def are_lanes(value_type: Any) -> bool:
    """Return whether the type is that of a literal that may be the number of lanes."""
    return are_literal(value_type) and literal(value_type) > 0


def are_integers(*value_types: Any) -> bool:
    """Return whether every type is that of an integer."""
    return all(isinstance(each, types.Integer) for each in value_types)


def is_number(value_type: Any) -> bool:
    """Return whether the type is that of a plain number, or of a plain bool."""
    return isinstance(value_type, types.Integer | types.Float | types.Boolean)


def to_index(context: Any, builder: Any, value: Any, value_type: Any) -> Any:
    """Convert an integer argument to int64."""
    if isinstance(value_type, types.Literal):
        return ir.Constant(INDEX, literal(value_type))
    return context.cast(builder, value, value_type, types.int64)


Count = Any
"""A number of elements, or an LLVM int64 where a run says how many."""


def count_of(context: Any, builder: Any, value: Any, value_type: Any) -> Count:
    """Return an integer argument: a number if it is a literal."""
    found = to_index(context, builder, value, value_type)
    return int(found.constant) if isinstance(found, ir.Constant) else found


def further(builder: Any, index: Any, count: int, step: Count) -> Any:
    """Return the LLVM *index*, *count* times a *step* further."""
    if isinstance(step, int):
        return builder.add(index, ir.Constant(INDEX, count * step)) if count * step else index
    return builder.add(index, builder.mul(step, ir.Constant(INDEX, count))) if count else index


def used_in(builder: Any, columns: Count, column: int, tile_lanes: int, vectors: int) -> Count:
    """Return the lanes that vector *column* of *vectors* has of the first *columns* of a row.

    If *columns* is open, the last vector has some.
    """
    if isinstance(columns, int):
        return columns - column * tile_lanes
    if column < vectors - 1:
        return tile_lanes
    return builder.sub(columns, ir.Constant(INDEX, column * tile_lanes))


def offset(builder: Any, index: Any, elements: int) -> Any:
    """Return the LLVM *index*, *elements* elements further."""
    return builder.add(index, ir.Constant(INDEX, elements)) if elements else index


def advanced(builder: Any, index: Any, count: int, step: Any) -> Any:
    """Return *index* and *count* times *step* more, both as from :func:`to_index`."""
    if isinstance(step, ir.Constant):
        return builder.add(index, ir.Constant(INDEX, step.constant * count))
    return builder.add(index, builder.mul(step, ir.Constant(INDEX, count)))


@intrinsic(prefer_literal=True)
def load(typing: Any, pointer: Any, index: Any, lanes: Any) -> Any:
    """``load(p, i, lanes)``: elements i, i + 1, ... as a vector."""
    if not (isinstance(pointer, Pointer) and are_integers(index) and are_lanes(lanes)):
        return None

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        index = to_index(context, builder, arguments[1], signature.args[1])
        place = address(builder, arguments[0], index, pointer.kind)
        return load_vector(builder, place, pointer.kind, literal(lanes))

    return Vec(pointer.kind, literal(lanes))(pointer, index, lanes), codegen


@intrinsic(prefer_literal=True)
def load_masked(typing: Any, pointer: Any, index: Any, lanes: Any, count: Any) -> Any:
    """``load_masked(p, i, lanes, n)``: the first n elements, then zeros; reads no further."""
    if not (isinstance(pointer, Pointer) and are_integers(index, count) and are_lanes(lanes)):
        return None

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        index = to_index(context, builder, arguments[1], signature.args[1])
        place = address(builder, arguments[0], index, pointer.kind)
        number = to_index(context, builder, arguments[3], signature.args[3])
        return load_first_lanes(builder, place, pointer.kind, literal(lanes), number)

    return Vec(pointer.kind, literal(lanes))(pointer, index, lanes, count), codegen


@intrinsic(prefer_literal=True)
def load_between(typing: Any, pointer: Any, index: Any, lanes: Any, begin: Any, end: Any) -> Any:
    """``load_between(p, i, lanes, m, n)``: elements i + m to i + n alone, each in its lane.

    Zeros are in the other lanes, whose elements are not read.
    """
    if not (isinstance(pointer, Pointer) and are_integers(index, begin, end) and are_lanes(lanes)):
        return None

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        index, begin, end = (
            to_index(context, builder, arguments[k], signature.args[k]) for k in (1, 3, 4)
        )
        place = address(builder, arguments[0], index, pointer.kind)
        before, inside = (first_lanes(builder, n, literal(lanes)) for n in (begin, end))
        mask = builder.and_(inside, builder.not_(before))
        return load_vector_masked(builder, place, pointer.kind, literal(lanes), mask)

    return Vec(pointer.kind, literal(lanes))(pointer, index, lanes, begin, end), codegen


@intrinsic(prefer_literal=True)
def store(typing: Any, pointer: Any, index: Any, vector: Any) -> Any:
    """``store(p, i, v)``: write all lanes at elements i, i + 1, ..."""
    if not (_fit(pointer, vector) and are_integers(index)):
        return None

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        index = to_index(context, builder, arguments[1], signature.args[1])
        place = address(builder, arguments[0], index, pointer.kind)
        store_vector(builder, place, arguments[2], pointer.kind)
        return context.get_dummy_value()

    return types.void(pointer, index, vector), codegen


@intrinsic(prefer_literal=True)
def store_masked(typing: Any, pointer: Any, index: Any, vector: Any, count: Any) -> Any:
    """``store_masked(p, i, v, n)``: write the first n lanes only."""
    if not (_fit(pointer, vector) and are_integers(index, count)):
        return None

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        index = to_index(context, builder, arguments[1], signature.args[1])
        place = address(builder, arguments[0], index, pointer.kind)
        if are_literal(signature.args[3]):
            wanted = literal(signature.args[3])
            store_first_lanes(builder, place, arguments[2], pointer.kind, wanted)
            return context.get_dummy_value()
        count = to_index(context, builder, arguments[3], signature.args[3])
        store_counted(builder, place, arguments[2], pointer.kind, count)
        return context.get_dummy_value()

    return types.void(pointer, index, vector, count), codegen


def _fit(pointer: Any, vector: Any) -> bool:
    return isinstance(pointer, Pointer) and isinstance(vector, Vec) and pointer.kind is vector.kind


@intrinsic(prefer_literal=True)
def broadcast(typing: Any, pointer: Any, index: Any, lanes: Any) -> Any:
    """``broadcast(p, i, lanes)``: element i in every lane."""
    if not (isinstance(pointer, Pointer) and are_integers(index) and are_lanes(lanes)):
        return None

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        index = to_index(context, builder, arguments[1], signature.args[1])
        place = address(builder, arguments[0], index, pointer.kind)
        return splat_value(builder, load_scalar(builder, place, pointer.kind), literal(lanes))

    return Vec(pointer.kind, literal(lanes))(pointer, index, lanes), codegen


@intrinsic(prefer_literal=True)
def at(typing: Any, pointer: Any, elements: Any) -> Any:
    """``at(p, elements)``: the address that many elements further."""
    if not (isinstance(pointer, Pointer) and are_integers(elements)):
        return None

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        index = to_index(context, builder, arguments[1], signature.args[1])
        return address(builder, arguments[0], index, pointer.kind)

    return pointer(pointer, elements), codegen


def hint_second_level(builder: Any, place: Any) -> None:
    """Start to bring what is at an LLVM address into the second-level cache; any is harmless."""
    hints = [ir.Constant(I32, hint) for hint in (0, _SECOND_LEVEL, 1)]
    call_named(builder, "llvm.prefetch.p0", ir.VoidType(), [place, *hints])


def pointer_as(kind: ElementKind) -> Callable[..., Any]:
    """Return ``as_<kind>(p)``: the same address, seen as elements of *kind*."""

    @intrinsic
    def as_kind(typing: Any, pointer: Any) -> Any:
        if not isinstance(pointer, Pointer):
            return None

        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return arguments[0]

        return Pointer(kind)(pointer), codegen

    return as_kind
