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
from glow_nb.llir.program import Instruction, mutated
from glow_nb.llir.scalar import number_as, scalar_expression
from glow_nb.schema import attributes_of
from glow_nb.types import ElementKind

BOOL, FLOAT32, FLOAT64 = ElementKind.BOOL, ElementKind.FLOAT32, ElementKind.FLOAT64
_NARROW = (ElementKind.FLOAT16, ElementKind.BFLOAT16)

_OPERATORS: dict[type[ast.AST], str] = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.Div: "div",
    ast.FloorDiv: "floor_div",
    ast.Mod: "mod",
    ast.LShift: "shift_left",
    ast.RShift: "shift_right",
    ast.BitAnd: "bit_and",
    ast.BitOr: "bit_or",
    ast.BitXor: "bit_xor",
    ast.USub: "neg",
    ast.Invert: "bit_not",
    ast.Lt: "less",
    ast.LtE: "less_equal",
    ast.Gt: "greater",
    ast.GtE: "greater_equal",
    ast.Eq: "equal",
    ast.NotEq: "not_equal",
}
_PREDICATES = frozenset(
    {"less", "less_equal", "greater", "greater_equal", "equal", "not_equal", "isnan", "isinf"}
)
_ANY_KIND = frozenset({"abs", "sign", "floor", "ceil", "rint", "trunc", "isnan", "isinf"})
"""Functions of one number that integers have, too; the others make float64 of an integer."""


@dataclass(frozen=True)
class Vector:
    """A vector in generated text.

    Attributes:
        name: A variable, or a call without side effects that makes the vector.
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
        functions: The functions called so far, each with the kind of its first operand.
    """

    def __init__(self, lanes: int, prefix: str = "v") -> None:
        self.lanes, self.prefix = lanes, prefix
        self.lines: list[str] = []
        self.functions: set[tuple[str, ElementKind]] = set()
        self._known: dict[str, Vector] = {}

    def assign(self, text: str, kind: ElementKind) -> Vector:
        """Return a variable that holds the vector *text* of *kind*."""
        if text not in self._known:
            vector = Vector(f"{self.prefix}{len(self.lines)}", kind)
            self.lines.append(f"{vector.name} = {text}")
            self._known[text] = vector
        return self._known[text]

    def call(self, function: str, kind: ElementKind, *operands: Vector) -> Vector:
        """Return the result, of *kind*, of a function of the SIMD layer."""
        self.functions.add((function, operands[0].kind))
        return self.assign(f"{function}({', '.join(o.name for o in operands)})", kind)

    def convert(self, vector: Vector, kind: ElementKind) -> Vector:
        """Return *vector* with elements of *kind*."""
        return vector if vector.kind is kind else self.call(f"convert_{kind.value}", kind, vector)

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
            case ast.BinOp(left=left, op=operator, right=right):
                return self.combine(_OPERATORS[type(operator)], left, right)
            case ast.Compare(left=left, ops=[operator], comparators=[right]):
                return self.combine(_OPERATORS[type(operator)], left, right)
            case ast.UnaryOp(op=operator, operand=operand):
                return self.unary(_OPERATORS[type(operator)], self.value(operand))
            case ast.Call(func=ast.Name(id=function), args=arguments):
                return self.function(function, arguments)
        raise self.error(ast.unparse(tree))

    def name(self, name: str) -> Operand:
        if name in self.operands:
            return self.operands[name]
        value = attributes_of(self.instruction).get(name)
        if not isinstance(value, int | float):
            raise self.error(name)
        return value

    def function(self, name: str, arguments: list[ast.expr]) -> Operand:
        match name, arguments:
            case "where", [condition, yes, no]:
                return self.where(self.value(condition), yes, no)
            case "convert", [x]:
                vector = self.vector(self.value(x), self.result)
                return self.code.convert(vector, self.result)
            case "bit_cast", [x]:
                vector = self.vector(self.value(x), self.result)
                return self.code.call(f"bit_cast_{self.result.value}", self.result, vector)
            case _, [x]:
                return self.unary(name, self.value(x))
            case _, [x, y]:
                return self.combine(name, x, y)
        raise self.error(name)

    def unary(self, name: str, x: Operand) -> Operand:
        if not isinstance(x, Vector):
            return -x if name == "neg" else self.unary(name, self.vector(x, self.result))
        x = self.widened(x)
        if name not in _ANY_KIND | {"neg", "bit_not"} and not x.kind.is_float:
            x = self.code.convert(x, FLOAT64)
        return self.code.call(name, BOOL if name in _PREDICATES else x.kind, x)

    def combine(self, name: str, left: ast.expr, right: ast.expr) -> Operand:
        x, y = self.together(self.widened(self.value(left)), self.widened(self.value(right)))
        return self.code.call(name, BOOL if name in _PREDICATES else x.kind, x, y)

    def where(self, condition: Operand, yes: ast.expr, no: ast.expr) -> Vector:
        mask = self.code.convert(self.vector(condition, BOOL), BOOL)
        x, y = self.together(self.value(yes), self.value(no))
        return self.code.call("where", x.kind, mask, x, y)

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
