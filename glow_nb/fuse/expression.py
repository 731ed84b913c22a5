"""Scalar expressions of data-parallel instructions as vector code.

An instruction says what it does to one element (:mod:`glow_nb.llir.scalar`). Here that expression
becomes straight-line calls of the SIMD layer on vectors that have names already, wherever those
came from: loaded from memory, computed by an instruction before, or taken from a register tile.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from glow_nb.errors import DefinitionError
from glow_nb.hlir.ops.quantization import BYTES
from glow_nb.llir.program import Instruction, mutated
from glow_nb.llir.scalar import applied, number_as, scalar_expression
from glow_nb.llir.scalar_functions import SCALAR_FUNCTIONS, ScalarFunction
from glow_nb.schema import attributes_of
from glow_nb.types import ElementKind

BOOL, FLOAT32, FLOAT64 = ElementKind.BOOL, ElementKind.FLOAT32, ElementKind.FLOAT64
_NARROW = (ElementKind.FLOAT16, ElementKind.BFLOAT16)
_CONVERT, _NEG = SCALAR_FUNCTIONS["convert"], SCALAR_FUNCTIONS["neg"]
_FMA, _LOOK_UP, _RINT = (SCALAR_FUNCTIONS[name] for name in ("fma", "look_up", "rint"))
_SATURATE, _CONVERT_FLOAT32 = SCALAR_FUNCTIONS["saturate"], SCALAR_FUNCTIONS["convert_float32"]
_ADD = SCALAR_FUNCTIONS["add"]
_INTEGERS = frozenset(kind for kind in ElementKind if kind.value.startswith(("int", "uint")))


@dataclass(frozen=True)
class Vector:
    """A vector in generated text.

    Attributes:
        name: A variable, or a call without side effects that makes the vector; the pointer to a
            table, which is read whole.
        kind: Its element kind.
    """

    name: str
    kind: ElementKind


T = TypeVar("T")
Operand = Vector | int | float
"""A vector, or a number that takes the kind of the vector it meets."""


class VectorCode:
    """Straight-line vector code under construction; equal calls are written once.

    Attributes:
        lanes: Elements of every vector.
        prefix: What the names of variables begin with.
        lines: The lines written so far, ``v3 = mul(v1, v2)``.
        calls: The functions called so far, each with the kind of its first operand.
    """

    def __init__(self, lanes: int, prefix: str = "v") -> None:
        self.lanes, self.prefix = lanes, prefix
        self.lines: list[str] = []
        self.calls: set[tuple[ScalarFunction, ElementKind]] = set()
        self._known: dict[str, Vector] = {}
        self._rounded: set[Vector] = set()  # whole numbers, -0.0 and NaN among them
        self._integers: set[Vector] = set()  # such numbers in float32 without -0.0
        self._saturated: dict[Vector, Vector] = {}  # what integers were made of, by the integers

    def assign(self, text: str, kind: ElementKind) -> Vector:
        """Return a variable that holds the vector *text* of *kind*."""
        if text not in self._known:
            vector = Vector(f"{self.prefix}{len(self.lines)}", kind)
            self.lines.append(f"{vector.name} = {text}")
            self._known[text] = vector
        return self._known[text]

    def call(self, function: ScalarFunction, kind: ElementKind, *operands: Vector) -> Vector:
        """Return the result, of *kind*, of *function*."""
        first = operands[0]
        self.calls.add((function, first.kind))
        arguments = ", ".join(operand.name for operand in operands)
        text = f"{function.name_for(kind)}({arguments})"
        if function is _SATURATE:
            result = Vector(text, kind)  # written where it is read, if it is read as integers
            self._saturated[result] = first
            return result
        if function in (_CONVERT, _CONVERT_FLOAT32) and kind is FLOAT32:
            return self._in_float32(first, text)
        result = self.assign(text, kind)
        if function is _RINT:
            self._rounded.add(result)
        if function is _ADD and self._are_integers(*operands):
            self._integers.add(result)
        return result

    def _are_integers(self, *summands: Vector) -> bool:
        """True if the sum is a whole number, but not -0.0.

        All of *summands* are whole numbers then, and one of them is never -0.0.
        """
        integers = self._integers.intersection(summands)
        return bool(integers) and (integers | self._rounded).issuperset(summands)

    def _in_float32(self, vector: Vector, text: str) -> Vector:
        """Return *vector* in float32, which *text* would convert.

        Where integers of at most 16 bits are saturated floats, those are bounded instead: narrowing
        and widening them again would take several instructions.
        """
        if vector.kind is FLOAT32:
            return vector
        source = self._saturated.get(vector)
        if source in self._integers and vector.kind.size_bytes <= 2:
            return self.assign(f"clamp_{vector.kind.value}({source.name})", FLOAT32)
        result = self.assign(text, FLOAT32)
        if vector.kind in _INTEGERS:
            self._integers.add(result)
        return result

    def convert(self, vector: Vector, kind: ElementKind) -> Vector:
        """Return *vector* with elements of *kind*."""
        return vector if vector.kind is kind else self.call(_CONVERT, kind, vector)

    def splat(self, number: float, kind: ElementKind) -> Vector:
        """Return a vector with *number*, made fit for *kind*, in every lane."""
        text = number_text(number_as(kind, number))
        return Vector(f"splat_{kind.value}({text}, {self.lanes})", kind)


def number_text(number: float) -> str:
    """Return *number* as a Python expression without names; infinity is ``1e999``."""
    if number == -(2**63):
        return f"{number + 1} - 1"  # 2**63 alone is not an int64
    if isinstance(number, float) and math.isinf(number):
        return "1e999" if number > 0 else "-1e999"
    if isinstance(number, float) and math.isnan(number):
        return "1e999 - 1e999"
    return repr(number)


def write_scalar(
    code: VectorCode, instruction: Instruction, operands: Mapping[str, Vector]
) -> Vector:
    """Append the expression of a data-parallel *instruction* to *code*.

    Args:
        code: Receives the lines.
        instruction: Its attributes become literals.
        operands: A vector for each operand that the expression reads, by field name.

    Returns:
        The result, of the kind of the instruction's destination.
    """
    (dest,) = mutated(instruction)
    translation = _Translation(code, instruction, operands, dest.type.kind)
    result = translation.value(scalar_expression(instruction))
    return code.convert(translation.vector(result, dest.type.kind), dest.type.kind)


@dataclass(frozen=True)
class _Translation:
    """One expression on its way to vector code."""

    code: VectorCode
    instruction: Instruction
    operands: Mapping[str, Vector]
    result: ElementKind

    def value(self, tree: ast.expr) -> Operand:
        """Return the vector or number that *tree* stands for, appending what computes it."""
        match tree:
            case ast.Constant(value=int() | float() as number):
                return number
            case ast.Name(id=name):
                return self.name(name)
        function, arguments = applied(tree)
        return self.apply(function, arguments)

    def name(self, name: str) -> Operand:
        if name in self.operands:
            return self.operands[name]
        value = attributes_of(self.instruction).get(name)
        if not isinstance(value, int | float):
            raise self.error(name)
        return value

    def apply(self, function: ScalarFunction, arguments: list[ast.expr]) -> Operand:
        match arguments:
            case [x, y, z] if function is _FMA:
                return self.multiply_add(x, y, z)
            case [condition, yes, no]:
                return self.where(function, self.value(condition), yes, no)
            case [x] if function.is_conversion:
                vector = self.vector(self.value(x), self.result)
                if function is _CONVERT:
                    return self.code.convert(vector, self.result)
                return self.code.call(function, self.result, vector)
            case [x]:
                return self.unary(function, self.value(x))
            case [ast.Name(id=table), x] if function is _LOOK_UP:
                return self.looked_up(self.operands[table], self.value(x))
            case [x, y]:
                return self.combine(function, x, y)
        raise AssertionError(f"nobody knows how to pass {function.arity} arguments")

    def unary(self, function: ScalarFunction, x: Operand) -> Operand:
        if not isinstance(x, Vector):
            if function is _NEG:
                return -x
            x = self.vector(x, self.result)
        x = self.widened(x)
        if x.kind not in function.kinds:
            x = self.code.convert(x, FLOAT64)
        return self.code.call(function, function.result or x.kind, x)

    def combine(self, function: ScalarFunction, left: ast.expr, right: ast.expr) -> Operand:
        x, y = self.together(self.widened(self.value(left)), self.widened(self.value(right)))
        return self.code.call(function, function.result or x.kind, x, y)

    def multiply_add(self, x: ast.expr, y: ast.expr, z: ast.expr) -> Vector:
        first, second = self.together(self.widened(self.value(x)), self.widened(self.value(y)))
        first, third = self.together(first, self.widened(self.value(z)))
        kind = first.kind if first.kind in _FMA.kinds else FLOAT64
        factors = (self.code.convert(vector, kind) for vector in (first, second, third))
        return self.code.call(_FMA, kind, *factors)

    def looked_up(self, table: Vector, x: Operand) -> Vector:
        """Return the elements of *table*, the name of a pointer, that the bytes of *x* count."""
        if not isinstance(x, Vector) or x.kind not in BYTES:
            raise self.error(f"look_up of {x.kind.value if isinstance(x, Vector) else x}")
        return self.code.call(_LOOK_UP, table.kind, table, x)

    def where(
        self, function: ScalarFunction, condition: Operand, yes: ast.expr, no: ast.expr
    ) -> Vector:
        mask = self.code.convert(self.vector(condition, BOOL), BOOL)
        x, y = self.together(self.value(yes), self.value(no))
        return self.code.call(function, x.kind, mask, x, y)

    def together(self, x: Operand, y: Operand) -> tuple[Vector, Vector]:
        """Return two operands as vectors of one kind."""
        match x, y:
            case Vector(), Vector():
                kind = x.kind if x.kind is y.kind else _common_kind(x.kind, y.kind)
            case (Vector(kind=kind), _) | (_, Vector(kind=kind)):
                pass
            case _:
                kind = BOOL if isinstance(x, bool) and isinstance(y, bool) else self.result
        x, y = self.vector(x, kind), self.vector(y, kind)
        return self.code.convert(x, kind), self.code.convert(y, kind)

    def widened(self, x: T) -> T | Vector:
        """Return *x*; a vector of 16-bit floats as float32, in which they are computed."""
        if isinstance(x, Vector) and x.kind in _NARROW:
            return self.code.convert(x, FLOAT32)
        return x

    def vector(self, x: Operand, kind: ElementKind) -> Vector:
        """Return *x*; a number becomes a vector of *kind*."""
        return x if isinstance(x, Vector) else self.code.splat(x, kind)

    def error(self, found: str) -> DefinitionError:
        text = self.instruction.scalar
        return DefinitionError(
            f"{self.instruction.opcode}: {found!r} in scalar expression {text!r} has no vector code"
        )


def _common_kind(x: ElementKind, y: ElementKind) -> ElementKind:
    """Return the kind that NumPy computes in when the two meet."""
    return ElementKind.of(np.result_type(x.dtype, y.dtype))
