"""The reference of formulas: the functions of scalar expressions."""

from __future__ import annotations

import ast

from glow_nb.base.types import ElementKind
from glow_nb.hlir.ops.families import ALL
from glow_nb.llir.scalar_functions import SCALAR_FUNCTIONS, ScalarFunction
from website.markdown import code, table

_SIGNS = {
    ast.Add: "x + y", ast.Sub: "x - y", ast.Mult: "x * y", ast.Div: "x / y",
    ast.FloorDiv: "x // y", ast.Mod: "x % y", ast.BitAnd: "x & y", ast.BitOr: "x | y",
    ast.BitXor: "x ^ y", ast.LShift: "x << y", ast.RShift: "x >> y", ast.USub: "-x",
    ast.Invert: "~x", ast.Lt: "x < y", ast.LtE: "x <= y", ast.Gt: "x > y", ast.GtE: "x >= y",
    ast.Eq: "x == y", ast.NotEq: "x != y",
}  # fmt: skip


def reference() -> str:
    """Return a table of the functions with how they are written, and what they cost."""
    rows = [_row(function) for function in functions()]
    return table(("function", "written", "kinds", "result", "costs"), rows)


def functions() -> list[ScalarFunction]:
    """Return the functions of the package; those that users define have a definition."""
    return [function for function in SCALAR_FUNCTIONS.values() if not function.definition]


def _row(function: ScalarFunction) -> tuple[str, ...]:
    arguments = ", ".join("xyz"[: function.arity])
    written = _SIGNS[function.operator] if function.operator else f"{function.name}({arguments})"
    named = ", ".join(code(kind.value) for kind in ElementKind if kind in function.kinds)
    result = code(function.result.value) if function.result else "as the operands"
    return (
        code(function.name),
        code(written),
        "all" if function.kinds == ALL else named,
        "as the instruction's result" if function.is_conversion else result,
        function.cost.value,
    )
