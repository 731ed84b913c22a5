"""The first elements of a vector in memory, as many as a number says that is known at run time.

They are taken in whole pieces of ..., 4, 2, 1 elements, each in a branch that is the same for all
rows of a tensor. A masked store takes many times as long on some processors (vmaskmovps on Zen: 40
operations), and masks of elements of one or two bytes become a branch for each element.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir

from glow_nb.base.types import ElementKind
from glow_nb.simd.lanes import I32
from glow_nb.simd.types import INDEX, llvm_memory_element


def store_pieces(builder: Any, place: Any, vector: Any, kind: ElementKind, count: Any) -> None:
    """Store the first *count* (int64) lanes of an LLVM vector in its form in memory."""
    lanes = vector.type.count
    is_whole = builder.icmp_signed(">=", count, ir.Constant(INDEX, lanes))
    with builder.if_else(is_whole) as (whole, part):
        with whole:
            _store(builder, place, vector, kind)
        with part:
            count, size = _not_negative(builder, count), lanes // 2
            while size:
                is_taken = _has_bit(builder, count, size)
                with builder.if_then(is_taken):
                    _store(builder, place, _lanes(builder, vector, range(size)), kind)
                place = builder.select(is_taken, _moved(builder, place, size, kind), place)
                halves = (_lanes(builder, vector, range(b, b + size)) for b in (size, 0))
                vector = builder.select(is_taken, *halves) if size > 1 else vector
                size //= 2


def load_pieces(builder: Any, place: Any, kind: ElementKind, lanes: int, count: Any) -> Any:
    """Load the first *count* (int64) of *lanes* elements, and zeros after them."""
    element = llvm_memory_element(kind)
    is_whole = builder.icmp_signed(">=", count, ir.Constant(INDEX, lanes))
    with builder.if_else(is_whole) as (whole, part):
        with whole:
            all_lanes = _load(builder, place, ir.VectorType(element, lanes), kind)
            whole_block = builder.block
        with part:
            tail = _load_tail(builder, place, kind, lanes, _not_negative(builder, count))
            part_block = builder.block
    return _merged(builder, [(all_lanes, whole_block), (tail, part_block)])


def _load_tail(builder: Any, place: Any, kind: ElementKind, lanes: int, count: Any) -> Any:
    """Return fewer elements than *lanes*: what a piece leaves over stands after it."""
    element = llvm_memory_element(kind)
    tail, size = ir.Constant(element, None), 1
    while size < lanes:
        before, vector = builder.block, ir.VectorType(element, 2 * size)
        if size == 1:
            alone = ir.Constant(vector, None)
        else:
            alone = _joined(builder, tail, ir.Constant(tail.type, None))
        with builder.if_then(_has_bit(builder, count, size)):
            begin = builder.and_(count, ir.Constant(INDEX, -2 * size))
            at = builder.gep(place, [begin], source_etype=element)
            if size == 1:
                number = _load(builder, at, element, kind)
                behind = builder.insert_element(alone, number, ir.Constant(I32, 0))
            else:
                piece = _load(builder, at, ir.VectorType(element, size), kind)
                behind = _joined(builder, piece, tail)
            taken = builder.block
        tail = _merged(builder, [(alone, before), (behind, taken)])
        size *= 2
    return tail if lanes > 1 else ir.Constant(ir.VectorType(element, 1), None)


def _merged(builder: Any, choices: Sequence[tuple[Any, Any]]) -> Any:
    """Return the value of the block that the present one is entered from."""
    merged = builder.phi(choices[0][0].type)
    for value, block in choices:
        merged.add_incoming(value, block)
    return merged


def _has_bit(builder: Any, count: Any, bit: int) -> Any:
    masked = builder.and_(count, ir.Constant(INDEX, bit))
    return builder.icmp_signed("!=", masked, ir.Constant(INDEX, 0))


def _not_negative(builder: Any, count: Any) -> Any:
    zero = ir.Constant(INDEX, 0)
    return builder.select(builder.icmp_signed("<", count, zero), zero, count)


def _moved(builder: Any, place: Any, size: int, kind: ElementKind) -> Any:
    return builder.gep(place, [ir.Constant(INDEX, size)], source_etype=llvm_memory_element(kind))


def _lanes(builder: Any, vector: Any, numbers: range) -> Any:
    """Return lanes of *vector*; one lane is a number, no vector."""
    if len(numbers) == 1:
        return builder.extract_element(vector, ir.Constant(I32, numbers.start))
    mask = ir.Constant(ir.VectorType(I32, len(numbers)), list(numbers))
    return builder.shuffle_vector(vector, ir.Constant(vector.type, ir.Undefined), mask)


def _joined(builder: Any, first: Any, second: Any) -> Any:
    lanes = 2 * first.type.count
    mask = ir.Constant(ir.VectorType(I32, lanes), list(range(lanes)))
    return builder.shuffle_vector(first, second, mask)


def _load(builder: Any, place: Any, type: Any, kind: ElementKind) -> Any:
    return builder.load(place, align=kind.size_bytes, typ=type)


def _store(builder: Any, place: Any, value: Any, kind: ElementKind) -> None:
    typed_place = builder.bitcast(place, value.type.as_pointer())
    builder.store(value, typed_place, align=kind.size_bytes)
