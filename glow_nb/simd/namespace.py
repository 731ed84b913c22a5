"""The names that generated kernel source is written in.

memory
    ``load(p, i, lanes)`` ``load_masked(p, i, lanes, n)`` ``store(p, i, v)``
    ``store_masked(p, i, v, n)`` ``broadcast(p, i, lanes)`` ``get(p, i)`` ``put(p, i, x)``
    ``copy(p, i, q, j, n)`` ``clear(p, i, n)`` ``fill(p, i, x, n)`` ``prefetch(p, i)``
    ``store_streaming(p, i, v)`` ``fence()``
addresses
    ``at(p, elements)`` ``as_<kind>(p)`` ``to_line(p)``
constants
    ``splat_<kind>(x, lanes)`` ``iota_<kind>(lanes)``
arithmetic
    ``add sub mul fma div floor_div mod fmod neg abs sign maximum minimum sqrt rsqrt reciprocal
    floor ceil rint trunc copysign``
logic
    ``less less_equal greater greater_equal equal not_equal where(c, a, b) isnan isinf bit_and
    bit_or bit_xor bit_not shift_left shift_right``
functions
    ``exp exp2 exp_nonpositive expm1 log log1p tanh erf sigmoid softplus gelu inverse_erf
    inverse_fourth_root pow sin cos tan asin acos atan sinh cosh asinh acosh atanh``
conversion
    ``convert_<kind>(v)`` ``bit_cast_<kind>(v)`` ``saturate_<kind>(v)`` ``clamp_<kind>(v)``
over lanes, to a plain number
    ``reduce_add reduce_mul reduce_maximum reduce_minimum reduce_largest reduce_and reduce_or``
indices
    ``min(i, j)`` ``max(i, j)`` of integers
register tiles
    ``tile_bias tile_fill tile_zero tile_load tile_fma tile_dot tile_get tile_set tile_keep
    tile_store tile_store_masked tile_any tile_is_finite tile_load_columns tile_load_masked
    tile_transpose tile_zip tile_unzip tile_prefetch tile_bias_masked tile_slide tile_slide_groups
    tile_winograd_input tile_winograd_output tile_multiply_rows tile_sum_lanes``
dots of groups of neighbouring integers
    ``tile_dot_pairs tile_dot_fours tile_dot_vpmaddwd tile_dot_vpdpwssd tile_dot_vpdpbusd``
    ``tile_dot_paired``
dots of weights from several places at a time
    ``tile_streams`` and ``tile_streams_<form>`` with the forms of the dots
tables
    ``look_up(p, v)``
products of channels by themselves in such groups
    ``tile_taps_<form>`` with the forms of the dots, ``interleave(v, w)``
    ``spread(v, size, factors, part)``
weights of few bits
    ``tile_dot_codes dequantize_codes``
parts of convolutions
    ``copy_patch winograd_taps winograd_weights``
random numbers
    ``random_words random_words_anywhere``

``p`` is a pointer argument, ``i`` an integer that counts elements, ``lanes`` an integer literal.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from glow_nb.simd import (
    arithmetic,
    codes,
    copies,
    dot,
    elementary,
    look_up,
    memory,
    outer_product,
    paired_dot,
    patch,
    philox,
    rows,
    scalars,
    stream,
    taps,
    tile,
    transpose,
    wide,
    window,
    winograd,
)
from glow_nb.simd.convert import bit_cast, clamp, convert, in_float32, saturate, saturate_all
from glow_nb.simd.inverse_erf import inverse_erf
from glow_nb.simd.lanes import BOOL, FLOAT32, Lanes
from glow_nb.simd.types import Pointer, RegisterTile, Vec, is_narrow, kernel_signature, scalar_type
from glow_nb.types import ElementKind

__all__ = ["NAMESPACE", "Pointer", "Vec", "kernel_signature"]


def _power(x: Lanes, exponent: Lanes) -> Lanes:
    """``x ** exponent``."""
    if not x.kind.is_float:
        return elementary.integer_power(x, exponent)
    return wide.power(x, exponent) if x.kind is FLOAT32 else x.call_library("pow", exponent)


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
    "exp2": elementary.exp2,
    "exp_nonpositive": elementary.exp_nonpositive,
    "expm1": elementary.expm1,
    "log": elementary.log,
    "log1p": elementary.log1p,
    "tanh": elementary.tanh,
    "erf": elementary.erf,
    "inverse_erf": inverse_erf,
    "sigmoid": elementary.sigmoid,
    "gelu": elementary.gelu,
    "softplus": elementary.softplus,
    "inverse_fourth_root": elementary.inverse_fourth_root,
    **wide.FUNCTIONS,
}
_BINARY: dict[str, Callable[[Lanes, Lanes], Lanes]] = {
    "add": arithmetic.add,
    "sub": arithmetic.sub,
    "mul": arithmetic.mul,
    "div": arithmetic.div,
    "floor_div": arithmetic.floor_div,
    "mod": arithmetic.mod,
    "fmod": arithmetic.fmod,
    "pow": _power,
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
    "reduce_largest": arithmetic.largest,
    "reduce_and": arithmetic.bit_and,
    "reduce_or": arithmetic.bit_or,
}
_INTRINSICS: dict[ModuleType, str] = {
    memory: "load load_masked store store_masked broadcast at prefetch",
    copies: "copy clear fill",
    scalars: "get put",
    look_up: "look_up",
    stream: "store_streaming to_line fence",
    tile: "tile_bias tile_fill tile_zero tile_load tile_load_masked tile_get tile_set"
    " tile_keep tile_store tile_store_masked tile_any tile_is_finite",
    outer_product: "tile_fma",
    codes: "tile_dot_codes dequantize_codes",
    paired_dot: "tile_dot_paired",
    rows: "tile_multiply_rows tile_sum_lanes",
    taps: "interleave spread",
    transpose: "tile_transpose tile_load_columns tile_zip tile_unzip tile_prefetch",
    patch: "copy_patch",
    philox: "random_words random_words_anywhere",
    window: "tile_bias_masked tile_slide tile_slide_groups",
    winograd: "tile_winograd_input tile_winograd_output winograd_taps winograd_weights",
}
"""What each module adds under its own name."""


def _lanes(builder: Any, value: Any, vector: Vec) -> Lanes:
    return Lanes(builder, value, vector.kind, vector.lanes)


def _same(*operands: Any) -> bool:
    """True if all are vectors, or register tiles, of one kind and width."""
    return all(
        isinstance(each, Vec | RegisterTile)
        and (each.kind, each.lanes) == (operands[0].kind, operands[0].lanes)
        for each in operands
    )


def _together(kind: ElementKind | None, *operands: Any) -> Any:
    """Return the type of an elementwise result; None if tiles of two sizes meet.

    A vector that meets a tile goes with each vector of it.
    """
    tiles = {(each.rows, each.vectors) for each in operands if isinstance(each, RegisterTile)}
    kind = kind or operands[0].kind
    if not tiles:
        return Vec(kind, operands[0].lanes)
    return RegisterTile(kind, operands[0].lanes, *tiles.pop()) if len(tiles) == 1 else None


def _apply(
    builder: Any, operation: Callable[..., Lanes], result: Any, signature: Any, arguments: Any
) -> Any:
    """Apply *operation* to vectors, or to each vector of tiles."""
    pairs = list(zip(arguments, signature.args, strict=True))
    if isinstance(result, Vec):
        return operation(*(_lanes(builder, value, type) for value, type in pairs)).value
    made = ir.Constant(result.llvm, ir.Undefined)
    for part in range(result.rows * result.vectors):
        operands = (
            Lanes(builder, builder.extract_value(value, part), type.kind, type.lanes)
            if isinstance(type, RegisterTile)
            else _lanes(builder, value, type)
            for value, type in pairs
        )
        made = builder.insert_value(made, operation(*operands).value, part)
    return made


def _unary(operation: Callable[[Lanes], Lanes], kind: ElementKind | None = None) -> Any:
    """Make an intrinsic of one vector or tile; the result has *kind* or that of the operand."""

    @intrinsic
    def unary(typing: Any, x: Any) -> Any:
        if not _same(x):
            return None
        result = _together(kind, x)

        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return _apply(builder, operation, result, signature, arguments)

        return result(x), codegen

    return unary


def _binary(operation: Callable[[Lanes, Lanes], Lanes], kind: ElementKind | None = None) -> Any:
    """Make an intrinsic of two vectors or tiles alike; the result has *kind* or theirs."""

    @intrinsic
    def binary(typing: Any, lhs: Any, rhs: Any) -> Any:
        if not _same(lhs, rhs):
            return None
        result = _together(kind, lhs, rhs)

        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return _apply(builder, operation, result, signature, arguments)

        return (result(lhs, rhs), codegen) if result else None

    return binary


def _reduction(operation: Callable[[Lanes, Lanes], Lanes]) -> Any:
    """Make an intrinsic that combines all lanes to one plain number."""

    @intrinsic
    def reduction(typing: Any, x: Any) -> Any:
        if not _same(x):
            return None

        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            vector = _lanes(builder, arguments[0], x)
            narrow = is_narrow(x.kind)
            wide = convert(vector, FLOAT32) if narrow else vector
            return wide.reduce(operation)

        return scalar_type(x.kind)(x), codegen

    return reduction


def _conversion(operation: Callable[[Lanes, ElementKind], Lanes], kind: ElementKind) -> Any:
    """Make an intrinsic of one vector or tile whose result has *kind*."""
    return _unary(lambda x: operation(x, kind), kind)


def _clamp(kind: ElementKind) -> Any:
    """Make the intrinsic of one vector or tile that stays within the limits of *kind*."""
    return _unary(lambda x: clamp(x, kind))


def _saturation(kind: ElementKind) -> Any:
    """Make the intrinsic of one vector or tile that rounds to the nearest numbers of *kind*."""

    @intrinsic
    def saturation(typing: Any, x: Any) -> Any:
        if not _same(x):
            return None
        result = _together(kind, x)

        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            if isinstance(x, Vec):
                return saturate(_lanes(builder, arguments[0], x), kind).value
            parts = [
                _lanes(builder, builder.extract_value(arguments[0], part), x.vector)
                for part in range(x.rows * x.vectors)
            ]
            made = ir.Constant(result.llvm, ir.Undefined)
            for part, found in enumerate(saturate_all(parts, kind)):
                made = builder.insert_value(made, found.value, part)
            return made

        return result(x), codegen

    return saturation


@intrinsic
def fma(typing: Any, lhs: Any, rhs: Any, addend: Any) -> Any:
    """``fma(a, b, c)``: ``a * b + c``, rounded once."""
    if not _same(lhs, rhs, addend):
        return None
    result = _together(None, lhs, rhs, addend)
    operation = in_float32(arithmetic.fma)

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _apply(builder, operation, result, signature, arguments)

    return (result(lhs, rhs, addend), codegen) if result else None


@intrinsic
def where(typing: Any, condition: Any, yes: Any, no: Any) -> Any:
    """``where(c, a, b)``: a where the bool vector c is true, else b."""
    if not (_same(yes, no) and _same(condition) and condition.kind is BOOL):
        return None
    if condition.lanes != yes.lanes:
        return None
    result = _together(yes.kind, condition, yes, no)

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        def choose(c: Lanes, a: Lanes, b: Lanes) -> Lanes:
            return a.like(builder.select(c.value, a.value, b.value))

        return _apply(builder, choose, result, signature, arguments)

    return (result(condition, yes, no), codegen) if result else None


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
    widened = in_float32
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
        names[f"splat_{kind.value}"] = scalars.splat_of(kind)
        names[f"iota_{kind.value}"] = scalars.iota_of(kind)
        names[f"as_{kind.value}"] = memory.pointer_as(kind)
        names[f"convert_{kind.value}"] = _conversion(convert, kind)
        names[f"saturate_{kind.value}"] = _saturation(kind)
        names[f"bit_cast_{kind.value}"] = _conversion(bit_cast, kind)
        if kind.value.startswith(("int", "uint")) and kind.bits <= 16:  # float32 holds the limits
            names[f"clamp_{kind.value}"] = _clamp(kind)
    for module, members in _INTRINSICS.items():
        names |= {name: getattr(module, name) for name in members.split()}
    return names | dot.DOTS | dot.STREAMS | taps.TAPS


NAMESPACE: dict[str, object] = _namespace()
"""What generated source sees as its globals, besides Python's builtins."""
