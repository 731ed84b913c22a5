"""Scalar expressions on whole NumPy arrays; :mod:`glow_nb.llir.scalar` defines what they mean."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from glow_nb.base.conversion import bits_as, converted, in_float32, saturated
from glow_nb.base.extremes import larger, smaller
from glow_nb.base.schema import attributes_of
from glow_nb.base.types import Array, ElementKind
from glow_nb.hlir.ops.elementwise import error_complement, error_function, fused_multiply_add
from glow_nb.hlir.ops.random import inverse_error_function
from glow_nb.llir.program import Instruction
from glow_nb.llir.scalar import applied, number_as, scalar_expression

_HALVES = (ElementKind.FLOAT16, ElementKind.BFLOAT16)


def evaluate_scalar(
    instruction: Instruction, operands: Mapping[str, Array], kind: ElementKind
) -> Any:
    """Return the scalar expression of *instruction* over arrays by operand name, in *kind*.

    Computes in the kind of the operands, halves in float32, and rounds to *kind* once.
    """
    values: dict[str, Any] = dict(attributes_of(instruction))
    values.update((name, _widened(array)) for name, array in operands.items())
    found = _Evaluator(values, kind).value(scalar_expression(instruction))
    return converted(np.asarray(found), kind)


def _widened(array: Array) -> Array:
    return array.astype(np.float32) if ElementKind.of(array.dtype) in _HALVES else array


class _Evaluator:
    """Walks a checked syntax tree; *values* are the operands and attributes."""

    def __init__(self, values: Mapping[str, Any], kind: ElementKind) -> None:
        self._values, self._kind = values, kind

    def value(self, tree: ast.expr) -> Any:
        match tree:
            case ast.Name(id=name):
                return self._values[name]
            case ast.Constant(value=number):
                return number
        function, arguments = applied(tree)
        return self._call(function.name, [self.value(argument) for argument in arguments])

    def _call(self, name: str, arguments: list[Any]) -> Any:
        if name == "convert":
            return converted(np.asarray(arguments[0]), self._kind)
        if name == "saturate":
            return saturated(np.asarray(arguments[0]), self._kind)
        if name == "bit_cast":
            return bits_as(arguments[0], self._kind)
        if name == "where":
            condition, *choices = arguments
            return np.where(condition, *_of_one_kind(*choices))
        if name == "look_up":
            table, x = arguments
            return table.reshape(-1)[x.astype(np.int64) - ElementKind.of(x.dtype).limits[0]]
        return FUNCTIONS[name](*_of_one_kind(*arguments))


def _of_one_kind(*values: Any) -> tuple[Any, ...]:
    """Return *values* with Python numbers in the kind of the arrays among them."""
    kinds = [ElementKind.of(v.dtype) for v in values if isinstance(v, np.ndarray | np.generic)]
    if not kinds:
        return values
    return tuple(
        value
        if isinstance(value, np.ndarray | np.generic)
        else kinds[0].dtype.type(number_as(kinds[0], value))
        for value in values
    )


def _quotient(x: Any, y: Any) -> Any:
    """Divide; integers drop the fraction, and give 0 by zero."""
    if not np.issubdtype(x.dtype, np.integer):
        return x / y
    return np.where(y == 0, 0, (x - np.fmod(x, y)) // y).astype(x.dtype)


def _power(x: Any, y: Any) -> Any:
    """Raise to a power; an integer to a negative one is the fraction's whole part, 0 for zero."""
    if not np.issubdtype(x.dtype, np.integer):
        return np.power(x, y)
    inverse = np.where(np.abs(x) == 1, np.where(y % 2 == 0, 1, x), 0)
    return np.where(y < 0, inverse, np.power(x, np.maximum(y, 0))).astype(x.dtype)


def _error_function(x: Any) -> Any:
    return error_function(x).astype(x.dtype)


def _inverse_error_function(x: Any) -> Any:
    return inverse_error_function(x).astype(x.dtype)


def _reciprocal_sqrt(x: Any) -> Any:
    return np.reciprocal(np.sqrt(x))


def _gelu(x: Any) -> Any:
    return (x / 2 * error_complement(-x / math.sqrt(2))).astype(x.dtype)


def _sigmoid(x: Any) -> Any:
    return np.reciprocal(1 + np.exp(-x))


def _softplus(x: Any) -> Any:
    return np.logaddexp(x.dtype.type(0), x)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": _quotient,
    "floor_div": operator.floordiv,
    "mod": operator.mod,
    "shift_left": np.left_shift,
    "shift_right": np.right_shift,
    "bit_and": operator.and_,
    "bit_or": operator.or_,
    "bit_xor": operator.xor,
    "neg": operator.neg,
    "bit_not": np.invert,
    "less": operator.lt,
    "less_equal": operator.le,
    "greater": operator.gt,
    "greater_equal": operator.ge,
    "equal": operator.eq,
    "not_equal": operator.ne,
    "maximum": larger,
    "minimum": smaller,
    "pow": _power,
    "fmod": np.fmod,
    "abs": np.abs,
    "sign": np.sign,
    "exp": np.exp,
    "expm1": np.expm1,
    "log": np.log,
    "log1p": np.log1p,
    "sqrt": np.sqrt,
    "rsqrt": _reciprocal_sqrt,
    "erf": _error_function,
    "inverse_erf": _inverse_error_function,
    "gelu": _gelu,
    "sigmoid": _sigmoid,
    "softplus": _softplus,
    "floor": np.floor,
    "ceil": np.ceil,
    "rint": np.rint,
    "fma": fused_multiply_add,
    "trunc": np.trunc,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "isnan": np.isnan,
    "isinf": np.isinf,
    "convert_float32": in_float32,
}
"""What the functions of expressions compute, but for ``where`` and the conversions."""
