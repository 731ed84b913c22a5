"""The functions that scalar expressions are made of: one row for each, read by all that use them.

What a function computes is written for NumPy in :mod:`glow_nb.backends.scalar_numpy` and for
vectors in :mod:`glow_nb.simd.namespace`, under the name that it has here. A function that has a
*definition* is expanded where an expression is parsed, and needs neither
(:func:`glow_nb.llir.scalar.define_scalar_function`).
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from enum import Enum
from itertools import zip_longest

from glow_nb.base.schema import Registry
from glow_nb.base.types import ElementKind
from glow_nb.hlir.ops.families import ALL, FLOATS, Kinds


class CostClass(Enum):
    """The cost of a function for one vector, as far as generators of loops need it."""

    CHEAP = "as cheap as loading a result that was kept"
    MODERATE = "a few instructions, or one slow one"
    POLYNOMIAL = "some twenty instructions for float32, forty for float64"
    LIBRARY = "a hundred instructions, or a library call a lane for some numbers"


@dataclass(frozen=True)
class ScalarFunction:
    """A function of scalar expressions.

    Attributes:
        name: The name in expressions and in the SIMD layer.
        arity: The number of arguments.
        operator: The Python operator that stands for it in an expression; None if it is called.
        kinds: The kinds that it is computed in. A number of another kind becomes a float64.
        result: The kind of the result; None if it has that of the operands.
        is_conversion: The result has the kind of the instruction's result, and the SIMD layer has
            one function a kind, ``convert_int8``.
        cost: Its cost.
        parameters: The names of its arguments in *definition*.
        definition: The expression that it abbreviates, over functions without a definition; empty
            for a function that is implemented.
    """

    name: str
    arity: int
    operator: type[ast.AST] | None = None
    kinds: Kinds = ALL
    result: ElementKind | None = None
    is_conversion: bool = False
    cost: CostClass = CostClass.MODERATE
    parameters: tuple[str, ...] = ()
    definition: str = ""

    def name_for(self, kind: ElementKind) -> str:
        """Return the name in the SIMD layer of the function whose result has *kind*."""
        return f"{self.name}_{kind.value}" if self.is_conversion else self.name


SCALAR_FUNCTIONS: Registry[str, ScalarFunction] = Registry("scalar function")
OPERATORS: dict[type[ast.AST], ScalarFunction] = {}
"""The functions that are written as operators."""


def _rows(
    names: str,
    arity: int,
    cost: CostClass,
    kinds: Kinds = ALL,
    *,
    operators: tuple[type[ast.AST], ...] = (),
    result: ElementKind | None = None,
    is_conversion: bool = False,
) -> None:
    """Add functions that differ in nothing but their names, or the operators that they are."""
    for name, operator in zip_longest(names.split(), operators):
        function = ScalarFunction(name, arity, operator, kinds, result, is_conversion, cost)
        SCALAR_FUNCTIONS.add(name, function)
        if operator:
            OPERATORS[operator] = function


_CHEAP, _MODERATE = CostClass.CHEAP, CostClass.MODERATE
_POLYNOMIAL, _LIBRARY = CostClass.POLYNOMIAL, CostClass.LIBRARY

_rows("add sub mul", 2, _CHEAP, operators=(ast.Add, ast.Sub, ast.Mult))
_rows("div", 2, _MODERATE, operators=(ast.Div,))
_rows("floor_div mod", 2, _LIBRARY, operators=(ast.FloorDiv, ast.Mod))
_rows("bit_and bit_or bit_xor", 2, _CHEAP, operators=(ast.BitAnd, ast.BitOr, ast.BitXor))
_rows("shift_left shift_right", 2, _MODERATE, operators=(ast.LShift, ast.RShift))
_rows("neg bit_not", 1, _CHEAP, operators=(ast.USub, ast.Invert))
_rows("less less_equal", 2, _CHEAP, operators=(ast.Lt, ast.LtE), result=ElementKind.BOOL)
_rows("greater greater_equal", 2, _CHEAP, operators=(ast.Gt, ast.GtE), result=ElementKind.BOOL)
_rows("equal not_equal", 2, _CHEAP, operators=(ast.Eq, ast.NotEq), result=ElementKind.BOOL)

_rows("where", 3, _CHEAP)
_rows("fma", 3, _CHEAP, FLOATS)
_rows("look_up", 2, _MODERATE)
_rows("maximum minimum", 2, _CHEAP)
_rows("pow fmod", 2, _LIBRARY)
_rows("abs", 1, _CHEAP)
_rows("sign floor ceil trunc", 1, _MODERATE)
_rows("rint", 1, _CHEAP)
_rows("isnan isinf", 1, _MODERATE, result=ElementKind.BOOL)
_rows("sqrt rsqrt", 1, _MODERATE, FLOATS)
_rows("exp expm1 log log1p tanh erf gelu sigmoid softplus", 1, _POLYNOMIAL, FLOATS)
_rows("inverse_erf", 1, _LIBRARY, FLOATS)
_rows("asin acos atan", 1, _POLYNOMIAL, FLOATS)
_rows("sin cos tan", 1, _LIBRARY, FLOATS)
_rows("sinh cosh asinh acosh atanh", 1, _LIBRARY, FLOATS)
_rows("convert bit_cast", 1, _CHEAP, is_conversion=True)
_rows("saturate", 1, _CHEAP, is_conversion=True)
_rows("convert_float32", 1, _CHEAP, result=ElementKind.FLOAT32)
