"""Elements at places that vectors count, loaded one by one."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.extending import intrinsic

from glow_nb.base.types import ElementKind
from glow_nb.simd.lanes import I32, Lanes
from glow_nb.simd.memory import address, load_scalar
from glow_nb.simd.types import INDEX, Pointer, Vec, llvm_vector

COUNTS = (ElementKind.INT32, ElementKind.INT64)


@intrinsic
def take(typing: Any, source: Any, x: Any) -> Any:
    """``take(p, v)``: of the elements from p on the one that each integer of v counts.

    None of these is negative.
    """
    if not (isinstance(source, Pointer) and isinstance(x, Vec) and x.kind in COUNTS):
        return None

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return taken(arguments[0], Lanes(builder, arguments[1], x.kind, x.lanes), source.kind)

    return Vec(source.kind, x.lanes)(source, x), codegen


def taken(source: Any, numbers: Lanes, kind: ElementKind) -> Any:
    """Return the elements that *numbers* count, none of which is negative."""
    builder = numbers.builder
    result = ir.Constant(llvm_vector(kind, numbers.lanes), ir.Undefined)
    for lane in range(numbers.lanes):
        index = ir.Constant(I32, lane)
        number = builder.extract_element(numbers.value, index)
        if number.type != INDEX:
            number = builder.zext(number, INDEX)
        element = load_scalar(builder, address(builder, source, number, kind), kind)
        result = builder.insert_element(result, element, index)
    return result
