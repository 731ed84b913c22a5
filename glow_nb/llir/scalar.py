"""The expressions that define a data-parallel instruction for one element.

``scalar`` is a Python expression over the names of operands and attributes. Backends translate its
syntax tree; it is never executed as Python.

==================================  ==============================================================
vocabulary                          meaning
==================================  ==============================================================
``+ - *``                           in the kind of the operands; integers wrap
``/``                               integers drop the fraction (C, ONNX); by zero they give 0
``//  %``                           rounded down; the remainder has the sign of the divisor
``<< >>``                           by the width of the kind or more they give 0
``& | ^ ~``                         bit for bit, for bools logical
``< <= > >= == !=``                 a bool; all but ``!=`` are false for NaN
``fma(x, y, z)``                    x * y + z of floats, rounded once
``maximum minimum``                 NaN if either is NaN; -0.0 is less than 0.0
``pow fmod``                        see the operators Pow and Modulo
``where(c, a, b)``                  a where c is true, else b
``sign rint``                       NaN for NaN; halves to the even number
``convert(x)``                      x in the kind of the result; to bool, whether it is not zero
``convert_float32(x)``              x in float32
``saturate(x)``                     x, rounded half to even, as the nearest number of the kind of
                                    the result, integers of at most 32 bits; the least for NaN
``bit_cast(x)``                     the bits of x in the kind of the result
``look_up(t, x)``                   the element of the operand t, a table of 256, that the byte x
                                    counts; the least byte of its kind counts the first
``a if attribute_test else b``      decided when the instruction is compiled; gone after parsing
==================================  ==============================================================

The others are the usual functions of one number with these names; the whole table is
:data:`glow_nb.llir.scalar_functions.SCALAR_FUNCTIONS`. A literal or an attribute takes the kind of
the other operand (:func:`number_as`). float16 and bfloat16 are computed in float32
and rounded once, when the result is stored.
"""

from __future__ import annotations

import ast
import math
import warnings
from functools import cache
from keyword import iskeyword
from typing import NoReturn

from typing_extensions import override

from glow_nb.base.errors import DefinitionError, GlowWarning
from glow_nb.base.schema import attributes_of, operand_specs
from glow_nb.base.types import ElementKind
from glow_nb.llir.program import Buffer, Instruction
from glow_nb.llir.scalar_functions import OPERATORS, SCALAR_FUNCTIONS, ScalarFunction

TABLE_SIZE = 256
"""Elements of a table: one for each byte."""

_ALLOWED = (ast.BinOp, ast.UnaryOp, ast.Load, *OPERATORS)


def define_scalar_function(name: str, *parameters: str, definition: str) -> None:
    """Add a function that is an abbreviation of an expression in known functions over *parameters*.

    ``define_scalar_function("softsign", "x", definition="x / (1 + abs(x))")`` lets the scalar
    expressions of every backend call ``softsign(...)``. A function that was defined before is
    replaced, with a notice if it meant something else.

    Raises:
        DefinitionError: *name* or a parameter is no name, the function is one of the vocabulary's
            own, or the definition is not in the vocabulary, or uses ``look_up``.
    """
    for text in (name, *parameters):
        if not text.isidentifier() or iskeyword(text):
            raise DefinitionError(f"scalar function {name!r}: {text!r} is no name; choose another")
    if len(set(parameters)) < len(parameters):
        raise DefinitionError(f"scalar function {name!r}: two parameters are called alike")
    known = SCALAR_FUNCTIONS.get(name)
    if known and not known.definition:
        raise DefinitionError(
            f"scalar function {name!r} is part of the vocabulary and cannot be replaced; choose "
            "another name"
        )
    expanded = ast.unparse(_parse(definition, frozenset(parameters), ()))
    if table_names(expanded):
        raise DefinitionError(
            f"scalar function {name!r}: a table is an operand of an operator, not a parameter; "
            "call look_up in the operator's own expression"
        )
    function = ScalarFunction(name, len(parameters), parameters=parameters, definition=expanded)
    if known and known != function:
        message = f"scalar function {name!r} is defined again: it replaces the earlier definition"
        warnings.warn(message, GlowWarning, stacklevel=2)
    SCALAR_FUNCTIONS[name] = function
    _parse.cache_clear()  # expressions that were expanded by the earlier definition


def scalar_expression(instruction: Instruction) -> ast.expr:
    """Return the syntax tree of the scalar expression of a data-parallel *instruction*.

    It has Constant nodes for numbers, Name nodes for operands and attributes, and nodes that
    :func:`applied` takes apart. A name that is called is a function, any other is an operand or
    attribute, even if they are spelled alike. The tree is shared: do not change it.

    Raises:
        DefinitionError: The text is not in the vocabulary.
    """
    operands = frozenset(spec.name for spec in operand_specs(type(instruction)))
    return _parse(instruction.scalar, operands, tuple(attributes_of(instruction).items()))


def applied(tree: ast.expr) -> tuple[ScalarFunction, list[ast.expr]]:
    """Return the function and the arguments of an operator or a call in a checked expression."""
    match tree:
        case ast.BinOp(left=left, op=operator, right=right):
            return OPERATORS[type(operator)], [left, right]
        case ast.Compare(left=left, ops=[operator], comparators=[right]):
            return OPERATORS[type(operator)], [left, right]
        case ast.UnaryOp(op=operator, operand=operand):
            return OPERATORS[type(operator)], [operand]
        case ast.Call(func=ast.Name(id=name), args=arguments):
            return SCALAR_FUNCTIONS[name], arguments
    raise AssertionError(f"{ast.unparse(tree)} passed the check of the vocabulary")


@cache
def table_names(text: str) -> frozenset[str]:
    """Return the operands of an expression that bytes are looked up in; they are read whole."""
    calls = (node for node in ast.walk(ast.parse(text, mode="eval")) if isinstance(node, ast.Call))
    return frozenset(ast.unparse(call.args[0]) for call in calls if _looks_up(call))


def tables_of(instruction: Instruction) -> tuple[Buffer, ...]:
    """Return the operands of *instruction*, if it is data parallel, that are read whole."""
    names = table_names(instruction.scalar) if instruction.scalar else ()
    return tuple(getattr(instruction, name) for name in sorted(names))


def _looks_up(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Name) and call.func.id == "look_up" and bool(call.args)


def number_as(kind: ElementKind, value: float) -> float | int | bool:
    """Return a literal or attribute as a number of *kind*.

    For an integer kind the fraction is dropped, a number out of range becomes the nearest one in
    range, and NaN becomes 0. For bool, every number except zero is true.
    """
    if kind.is_float:
        return float(value)
    if kind is ElementKind.BOOL:
        return value != 0
    if math.isnan(value):
        return 0
    bits = 8 * kind.size_bytes
    least, greatest = (
        (-(1 << bits - 1), (1 << bits - 1) - 1) if kind.is_signed else (0, 2**bits - 1)
    )
    if math.isinf(value):
        return greatest if value > 0 else least
    return min(max(int(value), least), greatest)


@cache
def _parse(
    text: str, operands: frozenset[str], attributes: tuple[tuple[str, object], ...]
) -> ast.expr:
    try:
        tree = ast.parse(text, mode="eval").body
    except SyntaxError as error:
        raise DefinitionError(f"scalar expression {text!r}: {error.msg}") from error
    known = dict(attributes)
    checked: ast.expr = _Checker(text, operands, known).visit(tree)
    return checked


class _Checker(ast.NodeTransformer):
    """Refuses what is not in the vocabulary and decides the tests of attributes."""

    def __init__(self, text: str, operands: frozenset[str], attributes: dict[str, object]) -> None:
        self._text, self._operands, self._attributes = text, operands, attributes

    def _refuse(self, node: ast.AST) -> NoReturn:
        found = ast.unparse(node)
        raise DefinitionError(
            f"scalar expression {self._text!r}: {found!r} is not in the vocabulary of "
            f"{__name__}; the names are {sorted((*self._operands, *self._attributes))}"
        )

    @override
    def generic_visit(self, node: ast.AST) -> ast.AST:
        if not isinstance(node, _ALLOWED):
            self._refuse(node)
        return super().generic_visit(node)

    @override
    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        chosen: ast.AST = self.visit(node.body if self._decide(node.test) else node.orelse)
        return chosen

    def _decide(self, test: ast.expr) -> object:
        match test:
            case ast.Name(id=name) if name in self._attributes:
                return self._attributes[name]
            case ast.Constant(value=value):
                return value
            case ast.Compare(left=left, ops=[ast.Eq()], comparators=[right]):
                return self._decide(left) == self._decide(right)
        self._refuse(test)

    @override
    def visit_Call(self, node: ast.Call) -> ast.AST:
        match node:
            case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]):
                function = SCALAR_FUNCTIONS.get(name)
                if function is None or function.operator or function.arity != len(arguments):
                    self._refuse(node)
                if _looks_up(node) and ast.unparse(arguments[0]) not in self._operands:
                    self._refuse(node)
                node.args = [self.visit(argument) for argument in arguments]
                return _expanded(function, node.args) if function.definition else node
        self._refuse(node)

    @override
    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        if len(node.ops) != 1:
            self._refuse(node)
        return super().generic_visit(node)

    @override
    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id not in self._operands and node.id not in self._attributes:
            self._refuse(node)
        return node

    @override
    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if not isinstance(node.value, int | float):
            self._refuse(node)
        return node


def _expanded(function: ScalarFunction, arguments: list[ast.expr]) -> ast.AST:
    """Return the definition of *function* with *arguments* instead of its parameters."""
    tree = ast.parse(function.definition, mode="eval").body
    expressions = dict(zip(function.parameters, arguments, strict=True))
    expanded: ast.AST = _Substitution(expressions).visit(tree)
    return expanded


class _Substitution(ast.NodeTransformer):
    """Replaces names by expressions, but not names of functions."""

    def __init__(self, expressions: dict[str, ast.expr]) -> None:
        self._expressions = expressions

    @override
    def visit_Name(self, node: ast.Name) -> ast.AST:
        return self._expressions[node.id]

    @override
    def visit_Call(self, node: ast.Call) -> ast.AST:
        node.args = [self.visit(argument) for argument in node.args]
        return node
