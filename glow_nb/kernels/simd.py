"""The SIMD layer: the names that generated kernel source is written in.

| kind of name | names |
|---|---|
| memory | ``load(p, i, lanes)`` ``load_masked(p, i, lanes, n)`` ``store(p, i, v)`` ``store_masked(p, i, v, n)`` ``broadcast(p, i, lanes)`` ``get(p, i)`` ``put(p, i, x)`` ``copy(p, i, q, j, n)`` ``clear(p, i, n)`` ``prefetch(p, i)`` |
| addresses | ``at(p, elements)``, ``as_<kind>(p)`` |
| constants | ``splat_<kind>(x, lanes)``, ``iota_<kind>(lanes)`` |
| arithmetic | ``add sub mul fma div floor_div mod fmod neg abs sign maximum minimum sqrt rsqrt reciprocal floor ceil rint trunc copysign`` |
| logic | ``less less_equal greater greater_equal equal not_equal where(c, a, b) isnan isinf bit_and bit_or bit_xor bit_not shift_left shift_right`` |
| functions | ``exp expm1 log log1p tanh erf sigmoid pow sin cos tan asin acos atan sinh cosh asinh acosh atanh`` |
| conversion | ``convert_<kind>(v)`` |
| over lanes | ``reduce_add reduce_mul reduce_maximum reduce_minimum reduce_and reduce_or``: a plain number |
| indices | ``min(i, j)`` ``max(i, j)`` of integers |
| register tiles | ``tile_bias tile_fill tile_load tile_fma tile_get tile_set tile_store tile_store_masked tile_load_masked tile_transpose tile_bias_masked tile_multiply_add`` |

``p`` is a pointer argument, ``i`` an integer that counts elements, ``lanes`` an integer literal.
"""  # noqa: E501

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import types
from numba.extending import intrinsic

from glow_nb.kernels import simd_arithmetic as arithmetic
from glow_nb.kernels import simd_math as elementary
from glow_nb.kernels import simd_memory as memory
from glow_nb.kernels import simd_tile as tile
from glow_nb.kernels import simd_transpose as transpose
from glow_nb.kernels import simd_window as window
from glow_nb.kernels.simd_convert import convert
from glow_nb.kernels.simd_lanes import BOOL, FLOAT32, Lanes
from glow_nb.kernels.simd_types import Pointer, Vec, kernel_signature, scalar_type
from glow_nb.types import ElementKind

__all__ = ["NAMESPACE", "Pointer", "Vec", "kernel_signature"]

_LIBRARY = ("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh")

_UNARY: dict[str, Callable[[Lanes], Lanes]] = {
    "neg": arithmetic.neg,
    "abs": arithmetic.absolute,
    "sign": arithmetic.sign,
    "sqrt": arithmetic.sqrt,
    "rsqrt": arithmetic.rsqrt,
    "reciprocal": arithmetic.reciprocal,
    "floor": arithmetic.floor,
    "ceil": arithmetic.ceil,
    "rint": arithmetic.rint,
    "trunc": arithmetic.trunc,
    "exp": elementary.exp,
    "expm1": elementary.expm1,
    "log": elementary.log,
    "log1p": elementary.log1p,
    "tanh": elementary.tanh,
    "erf": elementary.erf,
    "sigmoid": elementary.sigmoid,
    **{name: elementary.library(name) for name in _LIBRARY},
}
_BINARY: dict[str, Callable[[Lanes, Lanes], Lanes]] = {
    "add": arithmetic.add,
    "sub": arithmetic.sub,
    "mul": arithmetic.mul,
    "div": arithmetic.div,
    "floor_div": arithmetic.floor_div,
    "mod": arithmetic.mod,
    "fmod": arithmetic.fmod,
    "pow": elementary.power,
    "maximum": arithmetic.maximum,
    "minimum": arithmetic.minimum,
    "copysign": arithmetic.copysign,
}
_BITS = ("bit_and", "bit_or", "bit_xor", "shift_left", "shift_right")
_COMPARISONS = {
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
    "equal": "==",
    "not_equal": "!=",
}
_REDUCTIONS = {
    "reduce_add": arithmetic.add,
    "reduce_mul": arithmetic.mul,
    "reduce_maximum": arithmetic.maximum,
    "reduce_minimum": arithmetic.minimum,
    "reduce_and": arithmetic.bit_and,
    "reduce_or": arithmetic.bit_or,
}


def _lanes(builder: Any, value: Any, vector: Vec) -> Lanes:
    return Lanes(builder, value, vector.kind, vector.lanes)


def _same(*vectors: Any) -> bool:
    return all(isinstance(each, Vec) and each == vectors[0] for each in vectors)


def _unary(operation: Callable[[Lanes], Lanes], kind: ElementKind | None = None) -> Any:
    """Make an intrinsic of one vector, whose result has *kind* or that of the operand."""

    @intrinsic
    def unary(typing: Any, x: Any) -> Any:
        if not _same(x):
            return None

        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return operation(_lanes(builder, arguments[0], x)).value

        return Vec(kind or x.kind, x.lanes)(x), codegen

    return unary


def _binary(operation: Callable[[Lanes, Lanes], Lanes], kind: ElementKind | None = None) -> Any:
    """Make an intrinsic of two equal vectors, whose result has *kind* or theirs."""

    @intrinsic
    def binary(typing: Any, lhs: Any, rhs: Any) -> Any:
        if not _same(lhs, rhs):
            return None

        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            left, right = (_lanes(builder, each, lhs) for each in arguments)
            return operation(left, right).value

        return Vec(kind or lhs.kind, lhs.lanes)(lhs, rhs), codegen

    return binary


def _reduction(operation: Callable[[Lanes, Lanes], Lanes]) -> Any:
    """Make an intrinsic that combines all lanes to one plain number."""

    @intrinsic
    def reduction(typing: Any, x: Any) -> Any:
        if not _same(x):
            return None

        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            vector = _lanes(builder, arguments[0], x)
            narrow = arithmetic.is_narrow(x.kind)
            wide = convert(vector, FLOAT32) if narrow else vector
            return wide.reduce(operation)

        return scalar_type(x.kind)(x), codegen

    return reduction


def _conversion(kind: ElementKind) -> Any:
    """Make the intrinsic ``convert_<kind>``."""

    @intrinsic
    def conversion(typing: Any, x: Any) -> Any:
        if not _same(x):
            return None

        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return convert(_lanes(builder, arguments[0], x), kind).value

        return Vec(kind, x.lanes)(x), codegen

    return conversion


@intrinsic
def fma(typing: Any, lhs: Any, rhs: Any, addend: Any) -> Any:
    """``fma(a, b, c)``: ``a * b + c``, rounded once."""
    if not _same(lhs, rhs, addend):
        return None

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        vectors = [_lanes(builder, each, lhs) for each in arguments]
        return arithmetic.in_float32(arithmetic.fma)(*vectors).value

    return lhs(lhs, rhs, addend), codegen


@intrinsic
def where(typing: Any, condition: Any, yes: Any, no: Any) -> Any:
    """``where(c, a, b)``: a where the bool vector c is true, else b."""
    if not (_same(yes, no) and _same(condition) and condition.kind is BOOL):
        return None
    if condition.lanes != yes.lanes:
        return None

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.select(*arguments)

    return yes(condition, yes, no), codegen


def _index_choice(sign: str) -> Any:
    """Make ``min`` or ``max`` of two integers; numba's own would be compiled for each kernel."""

    @intrinsic
    def choice(typing: Any, lhs: Any, rhs: Any) -> Any:
        if not (isinstance(lhs, types.Integer) and isinstance(rhs, types.Integer)):
            return None

        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            left, right = arguments
            return builder.select(builder.icmp_signed(sign, left, right), left, right)

        return types.int64(types.int64, types.int64), codegen

    return choice


def _namespace() -> dict[str, object]:
    widened = arithmetic.in_float32
    names: dict[str, object] = {"fma": fma, "where": where}
    names |= {"min": _index_choice("<"), "max": _index_choice(">")}
    names |= {name: _unary(widened(operation)) for name, operation in _UNARY.items()}
    names |= {name: _binary(widened(operation)) for name, operation in _BINARY.items()}
    names |= {name: _binary(getattr(arithmetic, name)) for name in _BITS}
    names["bit_not"] = _unary(arithmetic.bit_not)
    names |= {
        name: _binary(widened(arithmetic.comparison(sign)), BOOL)
        for name, sign in _COMPARISONS.items()
    }
    names |= {name: _reduction(operation) for name, operation in _REDUCTIONS.items()}
    for name in ("isnan", "isinf"):
        names[name] = _unary(widened(getattr(arithmetic, name)), BOOL)
    for kind in ElementKind:
        names[f"splat_{kind.value}"] = memory.splat_of(kind)
        names[f"iota_{kind.value}"] = memory.iota_of(kind)
        names[f"as_{kind.value}"] = memory.pointer_as(kind)
        names[f"convert_{kind.value}"] = _conversion(kind)
    for name in ("load", "load_masked", "store", "store_masked", "broadcast", "at", "get", "put"):
        names[name] = getattr(memory, name)
    for name in ("copy", "clear", "prefetch"):
        names[name] = getattr(memory, name)
    names["tile_bias_masked"] = window.tile_bias_masked
    names["tile_multiply_add"] = window.tile_multiply_add
    for name in ("bias", "fill", "load", "fma", "get", "set", "store", "store_masked"):
        names[f"tile_{name}"] = getattr(tile, f"tile_{name}")
    names["tile_transpose"] = transpose.tile_transpose
    names["tile_load_masked"] = transpose.tile_load_masked
    return names


NAMESPACE: dict[str, object] = _namespace()
"""What generated source sees as its globals, besides Python's builtins."""
