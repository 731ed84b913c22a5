"""Scalar expressions of data-parallel instructions as vector code.

An instruction says what it does to one element (:mod:`glow_nb.llir.scalar`). Here that expression
becomes straight-line calls of the SIMD layer on vectors that have names already, wherever those
came from: loaded from memory, computed by an instruction before, or taken from a register tile.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from glow_nb.base.errors import DefinitionError
from glow_nb.base.schema import attributes_of
from glow_nb.base.types import ElementKind
from glow_nb.fuse.vector_code import Vector, VectorCode
from glow_nb.hlir.ops.quantization import BYTES
from glow_nb.llir.program import Instruction, mutated
from glow_nb.llir.scalar import applied, scalar_expression
from glow_nb.llir.scalar_functions import SCALAR_FUNCTIONS, ScalarFunction

BOOL, FLOAT32, FLOAT64 = ElementKind.BOOL, ElementKind.FLOAT32, ElementKind.FLOAT64
_NARROW = (ElementKind.FLOAT16, ElementKind.BFLOAT16)
_CONVERT, _NEG, _FMA, _LOOK_UP = (
    SCALAR_FUNCTIONS[name] for name in ("convert", "neg", "fma", "look_up")
)


T = TypeVar("T")
Operand = Vector | int | float
"""A vector, or a number that takes the kind of the vector it meets."""


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
    """One expression that becomes vector code."""

    code: VectorCode
    instruction: Instruction
    operands: Mapping[str, Vector]
    result: ElementKind

    def value(self, tree: ast.expr) -> Operand:
        """Return the vector or number that *tree* denotes, appending its computation."""
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
        raise AssertionError(f"functions of {function.arity} arguments are not supported")

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
