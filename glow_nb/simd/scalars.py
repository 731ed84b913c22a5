"""Plain numbers: one element of memory, and vectors made from a number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from glow_nb.base.types import ElementKind
from glow_nb.simd.convert import convert
from glow_nb.simd.lanes import BOOL, FLOAT32, I32, Lanes, constant_vector, splat_value
from glow_nb.simd.memory import (
    address,
    are_integers,
    are_lanes,
    is_number,
    literal,
    load_scalar,
    store_vector,
    to_index,
)
from glow_nb.simd.types import Pointer, Vec, is_narrow, llvm_element, llvm_vector, scalar_type


def element_of(context: Any, builder: Any, value: Any, value_type: Any, kind: ElementKind) -> Any:
    """Convert a plain number to the LLVM element of *kind*."""
    element = context.cast(builder, value, value_type, scalar_type(kind))
    if kind is BOOL:
        return element
    if not is_narrow(kind):
        return element
    vector = builder.bitcast(element, llvm_vector(FLOAT32, 1))
    narrow = convert(Lanes(builder, vector, FLOAT32, 1), kind)
    return builder.extract_element(narrow.value, ir.Constant(I32, 0))


def plain_number(builder: Any, element: Any, kind: ElementKind) -> Any:
    """Convert an LLVM element to a plain number."""
    if not is_narrow(kind):
        return element
    vector = builder.bitcast(element, ir.VectorType(llvm_element(kind), 1))
    wide = convert(Lanes(builder, vector, kind, 1), FLOAT32)
    return builder.extract_element(wide.value, ir.Constant(I32, 0))


@intrinsic(prefer_literal=True)
def get(typing: Any, pointer: Any, index: Any) -> Any:
    """``get(p, i)``: element i as a plain number (the 16-bit floats as ``float32``)."""
    if not (isinstance(pointer, Pointer) and are_integers(index)):
        return None

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        index = to_index(context, builder, arguments[1], signature.args[1])
        place = address(builder, arguments[0], index, pointer.kind)
        return plain_number(builder, load_scalar(builder, place, pointer.kind), pointer.kind)

    return scalar_type(pointer.kind)(pointer, index), codegen


@intrinsic(prefer_literal=True)
def put(typing: Any, pointer: Any, index: Any, number: Any) -> Any:
    """``put(p, i, x)``: write the plain number x, converted, to element i."""
    if not (isinstance(pointer, Pointer) and are_integers(index) and is_number(number)):
        return None

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        index = to_index(context, builder, arguments[1], signature.args[1])
        place = address(builder, arguments[0], index, pointer.kind)
        element = element_of(context, builder, arguments[2], signature.args[2], pointer.kind)
        store_vector(builder, place, element, pointer.kind)
        return context.get_dummy_value()

    return types.void(pointer, index, number), codegen


def splat_of(kind: ElementKind) -> Callable[..., Any]:
    """Return ``splat_<kind>(x, lanes)``: the plain number x in every lane."""

    @intrinsic(prefer_literal=True)
    def splat(typing: Any, number: Any, lanes: Any) -> Any:
        if not (is_number(number) and are_lanes(lanes)):
            return None

        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            element = element_of(context, builder, arguments[0], signature.args[0], kind)
            return splat_value(builder, element, literal(lanes))

        return Vec(kind, literal(lanes))(types.unliteral(number), lanes), codegen

    return splat


def iota_of(kind: ElementKind) -> Callable[..., Any]:
    """Return ``iota_<kind>(lanes)``: the vector 0, 1, 2, ..."""

    @intrinsic(prefer_literal=True)
    def iota(typing: Any, lanes: Any) -> Any:
        if not are_lanes(lanes):
            return None

        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return constant_vector(kind, range(literal(lanes)))

        return Vec(kind, literal(lanes))(lanes), codegen

    return iota
