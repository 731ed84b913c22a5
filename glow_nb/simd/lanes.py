"""Building LLVM vector code: a value with operators, on which every intrinsic is written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils

from glow_nb.base.types import ElementKind
from glow_nb.simd.instruction_sets import has_instruction_set
from glow_nb.simd.types import is_narrow, llvm_element, llvm_vector

BOOL, FLOAT32, FLOAT64 = ElementKind.BOOL, ElementKind.FLOAT32, ElementKind.FLOAT64
INT32, INT64 = ElementKind.INT32, ElementKind.INT64
I32 = ir.IntType(32)
REGISTER_BYTES = 16
"""Bytes of the narrowest vector registers."""

_SUFFIXES = {FLOAT32: "f32", FLOAT64: "f64"}
_BITS_KIND = {4: INT32, 8: INT64}
_FENCES = {
    **dict.fromkeys((ir.FloatType(), I32), ("f32", ir.FloatType())),
    **dict.fromkeys((ir.DoubleType(), ir.IntType(64)), ("f64", ir.DoubleType())),
}
"""How the fence for a number of each type is called, and of which type it takes it."""


@dataclass(frozen=True)
class Lanes:
    """A vector under construction: operators append LLVM instructions to ``builder``.

    Python numbers on the right of an operator mean that number in every lane. Comparisons with a
    NaN are false, except ``!=``.

    Attributes:
        builder: The IR builder of llvmlite.
        value: The vector, a value of llvmlite.
        kind: The kind of each lane.
        lanes: The number of lanes.
    """

    builder: Any
    value: Any
    kind: ElementKind
    lanes: int

    def like(self, value: Any, kind: ElementKind | None = None) -> Lanes:
        """Wrap an LLVM *value* of the same number of lanes alike."""
        return type(self)(self.builder, value, kind or self.kind, self.lanes)

    def full(self, number: float, kind: ElementKind | None = None) -> Lanes:
        """Return a constant with *number* in every lane."""
        kind = kind or self.kind
        constant = constant_vector(kind, [number] * self.lanes)
        return self.like(constant, kind)

    def operand(self, other: Lanes | float) -> Lanes:
        """Return *other* as a vector of this kind."""
        return other if isinstance(other, Lanes) else self.full(other)

    def __add__(self, other: Lanes | float) -> Lanes:
        return self._arithmetic("add", other)

    def __sub__(self, other: Lanes | float) -> Lanes:
        return self._arithmetic("sub", other)

    def __mul__(self, other: Lanes | float) -> Lanes:
        return self._arithmetic("mul", other)

    def __and__(self, other: Lanes | float) -> Lanes:
        return self.like(self.builder.and_(self.value, self.operand(other).value))

    def __or__(self, other: Lanes | float) -> Lanes:
        return self.like(self.builder.or_(self.value, self.operand(other).value))

    def __xor__(self, other: Lanes | float) -> Lanes:
        return self.like(self.builder.xor(self.value, self.operand(other).value))

    def __lt__(self, other: Lanes | float) -> Lanes:
        return self.compare("<", other)

    def __le__(self, other: Lanes | float) -> Lanes:
        return self.compare("<=", other)

    def __gt__(self, other: Lanes | float) -> Lanes:
        return self.compare(">", other)

    def __ge__(self, other: Lanes | float) -> Lanes:
        return self.compare(">=", other)

    def _arithmetic(self, name: str, other: Lanes | float) -> Lanes:
        operation = getattr(self.builder, f"f{name}" if self.kind.is_float else name)
        return self.like(operation(self.value, self.operand(other).value))

    def divide(self, other: Lanes | float) -> Lanes:
        """Quotient of floats."""
        return self.like(self.builder.fdiv(self.value, self.operand(other).value))

    def compare(self, sign: str, other: Lanes | float) -> Lanes:
        """Compare by *sign*, one of ``< <= > >= == !=``."""
        right = self.operand(other).value
        if self.kind.is_float and sign == "!=":
            bits = self.builder.fcmp_unordered(sign, self.value, right)
        elif self.kind.is_float:
            bits = self.builder.fcmp_ordered(sign, self.value, right)
        elif self.kind.is_signed:
            bits = self.builder.icmp_signed(sign, self.value, right)
        else:
            bits = self.builder.icmp_unsigned(sign, self.value, right)
        return self.like(bits, BOOL)

    def is_nan(self) -> Lanes:
        """True where a float is not a number."""
        return self.like(self.builder.fcmp_unordered("uno", self.value, self.value), BOOL)

    def select(self, yes: Lanes | float, no: Lanes) -> Lanes:
        """Choose lane by lane: *yes* where this bool vector is true, else *no*."""
        return no.like(self.builder.select(self.value, no.operand(yes).value, no.value))

    def fma(self, factor: Lanes | float, addend: Lanes | float) -> Lanes:
        """``self * factor + addend``, rounded once for floats."""
        if not self.kind.is_float:
            return self * factor + addend
        return self.call("fma", self.operand(factor), self.operand(addend))

    def multiply_add(self, factor: Lanes | float, addend: Lanes | float) -> Lanes:
        """``self * factor + addend``, rounded once where the processor does it in one instruction.

        Where it does not, :meth:`fma` is a call of the C library for each lane.
        """
        if has_instruction_set(self.builder, "multiply_add"):
            return self.fma(factor, addend)
        return self * factor + addend

    def call(self, name: str, *others: Lanes) -> Lanes:
        """Call the LLVM intrinsic ``llvm.<name>`` on vectors of this kind."""
        operands = [self.value, *(other.value for other in others)]
        suffix = _SUFFIXES.get(self.kind) or f"i{self.kind.size_bytes * 8}"
        full_name = f"llvm.{name}.v{self.lanes}{suffix}"
        return self.like(call_named(self.builder, full_name, self.value.type, operands))

    def call_library(self, name: str, *others: Lanes) -> Lanes:
        """Call the C function *name* (its ``float`` form ends in f) once for each lane."""
        element = llvm_element(self.kind)
        symbol = name + "f" if self.kind is FLOAT32 else name
        result = ir.Constant(self.value.type, ir.Undefined)
        for lane in range(self.lanes):
            index = ir.Constant(I32, lane)
            operands = [self.builder.extract_element(each.value, index) for each in (self, *others)]
            scalar = call_named(self.builder, symbol, element, operands)
            result = self.builder.insert_element(result, scalar, index)
        return self.like(result)

    def bits(self) -> Lanes:
        """The same bits of a float as signed integers."""
        kind = _BITS_KIND[self.kind.size_bytes]
        vector = llvm_vector(kind, self.lanes)
        return self.like(self.builder.bitcast(self.value, vector), kind)

    def as_float(self, kind: ElementKind) -> Lanes:
        """The same bits of an integer as a float of *kind*, which has the same size."""
        return self.like(self.builder.bitcast(self.value, llvm_vector(kind, self.lanes)), kind)

    def shift_left(self, count: Lanes | int) -> Lanes:
        """Shift integers left by less than their width."""
        return self.like(self.builder.shl(self.value, self.operand(count).value))

    def shift_right(self, count: Lanes | int) -> Lanes:
        """Shift integers right, keeping the sign of signed ones, by less than their width."""
        shift = self.builder.ashr if self.kind.is_signed else self.builder.lshr
        return self.like(shift(self.value, self.operand(count).value))

    def shuffle(self, order: Sequence[int]) -> Lanes:
        """Take the lanes in *order*; the result has ``len(order)`` lanes."""
        mask = ir.Constant(ir.VectorType(I32, len(order)), list(order))
        undefined = ir.Constant(self.value.type, ir.Undefined)
        value = self.builder.shuffle_vector(self.value, undefined, mask)
        return Lanes(self.builder, value, self.kind, len(order))

    def join(self, other: Lanes) -> Lanes:
        """Return these lanes, and those of *other*, which are as many, after them."""
        lanes = self.lanes + other.lanes
        mask = ir.Constant(ir.VectorType(I32, lanes), list(range(lanes)))
        value = self.builder.shuffle_vector(self.value, other.value, mask)
        return Lanes(self.builder, value, self.kind, lanes)

    def split(self, count: int) -> list[Lanes]:
        """Return these lanes in *count* vectors, the first ones first."""
        lanes = self.lanes // count
        return [self.shuffle(range(begin, begin + lanes)) for begin in range(0, self.lanes, lanes)]

    def reduce(self, combine: Callable[[Lanes, Lanes], Lanes]) -> Any:
        """Combine all lanes pairwise (halves, quarters, ...) to one LLVM scalar.

        Halves of one register are combined in the whole register: of a choice between two single
        numbers LLVM would make a branch that no processor can predict.
        """
        part, half = self, self.lanes // 2
        while half:
            upper = range(half, 2 * half)
            if half * part.kind.size_bytes >= REGISTER_BYTES:
                part = combine(part.shuffle(range(half)), part.shuffle(upper))
            else:
                part = combine(part, part.shuffle([*upper, *[0] * (part.lanes - half)]))
            half //= 2
        first = self.builder.extract_element(part.value, ir.Constant(I32, 0))
        return fenced(self.builder, first)


def fenced(builder: Any, number: Any) -> Any:
    """Return the LLVM *number* as one of which LLVM does not know that it was in a vector.

    Else it makes of the number, where it becomes a vector of one lane, a shuffle to one lane, and
    moves that before what the number was combined of. If there is a choice among that, LLVM 22
    stops the process ("cast<FixedVectorType>"). The fence takes no instruction; it is for floats,
    and integers pass as the bits of one, so that they stay in a vector register.
    """
    bits = _FENCES.get(number.type)
    if bits is None:
        wide = builder.zext(number, I32)
        return builder.trunc(fenced(builder, wide), number.type)
    name, form = bits
    kept = call_named(
        builder, f"llvm.arithmetic.fence.{name}", form, [builder.bitcast(number, form)]
    )
    return builder.bitcast(kept, number.type)


def joined(parts: Sequence[Lanes]) -> Lanes:
    """Return one vector with the lanes of *parts*, whose number is a power of two."""
    while len(parts) > 1:
        parts = [low.join(high) for low, high in zip(parts[::2], parts[1::2], strict=True)]
    return parts[0]


def constant_vector(kind: ElementKind, numbers: Sequence[float]) -> Any:
    """Return an LLVM constant with these lanes."""
    elements = np.array(numbers).astype(kind.dtype)
    if is_narrow(kind):
        elements = elements.view(np.uint16)
    if kind.is_storage:
        elements = elements.view(np.uint8)
    listed, vector = elements.tolist(), llvm_vector(kind, len(numbers))
    first = elements[:1].tobytes()
    if elements.tobytes() == first * len(listed):  # -0.0 and 0.0 differ
        return SplatConstant(vector, listed[0])
    return ir.Constant(vector, listed)


class SplatConstant(ir.Constant):
    """A vector with one number in all lanes: written as such, not lane by lane.

    To write out the lanes, and to read them again, takes a tenth of the time of many a kernel.
    """

    def _get_reference(self) -> str:
        return f"splat ({self.constant[0]})"


def call_named(builder: Any, name: str, result: Any, operands: Sequence[Any]) -> Any:
    """Call an LLVM intrinsic or C function by name, declaring it when it is not yet."""
    signature = ir.FunctionType(result, [operand.type for operand in operands])
    function = cgutils.get_or_insert_function(builder.module, signature, name)
    return builder.call(function, list(operands))


def splat_value(builder: Any, scalar: Any, lanes: int) -> Any:
    """Return an LLVM vector with *scalar* in every lane."""
    vector = ir.VectorType(scalar.type, lanes)
    undefined = ir.Constant(vector, ir.Undefined)
    first = builder.insert_element(undefined, scalar, ir.Constant(I32, 0))
    zeros = ir.Constant(ir.VectorType(I32, lanes), None)
    return builder.shuffle_vector(first, undefined, zeros)


def first_lanes(builder: Any, count: Any, lanes: int) -> Any:
    """Return the mask ``<lanes x i1>`` that is true in the first *count* (int64) lanes."""
    numbers = ir.Constant(ir.VectorType(I32, lanes), list(range(lanes)))
    if isinstance(count, ir.Constant):
        bits = [int(lane < count.constant) for lane in range(lanes)]
        return ir.Constant(ir.VectorType(ir.IntType(1), lanes), bits)
    limit = splat_value(builder, builder.trunc(count, I32), lanes)
    return builder.icmp_signed("<", numbers, limit)
