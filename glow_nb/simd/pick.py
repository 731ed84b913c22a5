"""Picking elements at places that are known when a kernel is compiled.

Places that lie within two vectors of the source are shuffled out of these: neighbours often come
from the same ones, which the compiler then loads once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from glow_nb.base.types import ElementKind
from glow_nb.simd.lanes import I32
from glow_nb.simd.memory import (
    address,
    are_literal,
    literal,
    load_scalar,
    load_vector,
    store_vector,
    to_index,
)
from glow_nb.simd.types import INDEX, Pointer, Vec, llvm_vector


@dataclass(frozen=True)
class _Source:
    """Elements that are known to be there.

    Attributes:
        builder: The builder of the instructions.
        pointer: The LLVM pointer of the tensor.
        start: The element that places are counted from.
        kind: Their kind.
        least: The first place that may be read.
        end: The place after the last one that may be read.
    """

    builder: Any
    pointer: Any
    start: Any
    kind: ElementKind
    least: int
    end: int

    def picked(self, places: Sequence[int]) -> Any:
        """Return the elements at *places* as an LLVM vector."""
        low, high = min(places), max(places)
        width = min(len(places), self.end - self.least)
        first = min(low, self.end - width)
        if high < first + width:
            second = first
        elif high - low < 2 * width:
            second = high + 1 - width
        else:
            return self._one_by_one(places)
        vectors = [self._load(begin, width) for begin in (first, second)]
        order = [p - first if p < first + width else width + p - second for p in places]
        mask = ir.Constant(ir.VectorType(I32, len(order)), order)
        return self.builder.shuffle_vector(*vectors, mask)

    def _one_by_one(self, places: Sequence[int]) -> Any:
        result = ir.Constant(llvm_vector(self.kind, len(places)), ir.Undefined)
        for lane, place in enumerate(places):
            element = load_scalar(self.builder, self._address(place), self.kind)
            result = self.builder.insert_element(result, element, ir.Constant(I32, lane))
        return result

    def _load(self, begin: int, width: int) -> Any:
        return load_vector(self.builder, self._address(begin), self.kind, width)

    def _address(self, place: int) -> Any:
        at = self.builder.add(self.start, ir.Constant(INDEX, place))
        return address(self.builder, self.pointer, at, self.kind)


@intrinsic(prefer_literal=True)
def pick(typing: Any, dest: Any, to: Any, source: Any, start: Any, places: Any, lanes: Any) -> Any:
    """``pick(p, i, q, j, "0 0 1 1", lanes)``: the elements of q at places from j on, to p, i on.

    Element ``i + k`` is that at ``j + places[k]``. They are stored in vectors of *lanes*, of which
    the last one overlaps the one before; fewer places are one vector.
    """
    if not (isinstance(dest, Pointer) and dest == source and are_literal(lanes)):
        return None
    if not isinstance(places, types.StringLiteral):
        return None
    wanted = [int(place) for place in places.literal_value.split()]

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        to, start = (to_index(context, builder, arguments[k], signature.args[k]) for k in (1, 3))
        reach = min(wanted), max(wanted) + 1
        elements = _Source(builder, arguments[2], start, dest.kind, *reach)
        step = min(literal(lanes), len(wanted))
        for number in range(0, len(wanted), step):
            first = min(number, len(wanted) - step)
            vector = elements.picked(wanted[first : first + step])
            place = builder.add(to, ir.Constant(INDEX, first))
            store_vector(
                builder, address(builder, arguments[0], place, dest.kind), vector, dest.kind
            )
        return context.get_dummy_value()

    return types.void(dest, to, source, start, places, lanes), codegen


@intrinsic(prefer_literal=True)
def load_steps(typing: Any, pointer: Any, index: Any, step: Any, lanes: Any) -> Any:
    """``load_steps(p, i, step, lanes)``: the elements at i, i + step, i + 2 * step, ..."""
    if not (isinstance(pointer, Pointer) and are_literal(step, lanes)):
        return None
    vector = Vec(pointer.kind, literal(lanes))
    places = range(0, literal(lanes) * literal(step), literal(step))

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        start = to_index(context, builder, arguments[1], signature.args[1])
        reach = 0, places[-1] + 1
        return _Source(builder, arguments[0], start, pointer.kind, *reach).picked(places)

    return vector(pointer, types.unliteral(index), step, lanes), codegen
