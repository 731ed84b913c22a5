"""The names that generated kernel source is written in.

memory
    ``load(p, i, lanes)`` ``load_masked(p, i, lanes, n)`` ``store(p, i, v)``
    ``load_between(p, i, lanes, m, n)`` ``store_masked(p, i, v, n)`` ``broadcast(p, i, lanes)``
    ``get(p, i)`` ``put(p, i, x)`` ``copy(p, i, q, j, n)`` ``clear(p, i, n)``
    ``fill(p, i, x, n)`` ``store_streaming(p, i, v)`` ``fence()``
addresses
    ``at(p, elements)`` ``as_<kind>(p)`` ``to_line(p)``
constants
    ``splat_<kind>(x, lanes)`` ``iota_<kind>(lanes)``
arithmetic
    ``add sub mul fma div floor_div mod fmod neg abs sign maximum minimum at_least at_most
    positive_part sqrt rsqrt reciprocal floor ceil rint trunc copysign``
logic
    ``less less_equal greater greater_equal equal not_equal where(c, a, b) isnan isinf bit_and
    bit_or bit_xor bit_not shift_left shift_right``
functions
    ``exp exp2 exp_nonpositive expm1 log log1p tanh erf sigmoid softplus gelu inverse_erf
    inverse_fourth_root pow sin cos tan asin acos atan sinh cosh asinh acosh atanh``
conversion
    ``convert_<kind>(v)`` ``bit_cast_<kind>(v)`` ``saturate_<kind>(v)`` ``clamp_<kind>(v)``
    ``saturate_sum_<kind>(v, w)`` ``clamp_around_<kind>(v, w)`` ``flush_bfloat16(v)``
over lanes, to a plain number
    ``reduce_add reduce_mul reduce_maximum reduce_minimum reduce_largest reduce_and reduce_or``
indices
    ``min(i, j)`` ``max(i, j)`` of integers
register tiles
    ``tile_bias tile_fill tile_zero tile_load tile_fma tile_dot tile_get tile_set tile_keep
    tile_store tile_store_masked tile_any tile_is_finite tile_load_columns tile_load_masked
    tile_load_rows
    tile_transpose tile_prefetch tile_bias_masked tile_slide tile_slide_groups
    tile_winograd_input tile_winograd_output tile_multiply_rows tile_sum_lanes tile_join
    tile_rows tile_columns``
dots of groups of neighbouring integers
    ``tile_dot_pairs tile_dot_fours tile_dot_vpmaddwd tile_dot_vpdpwssd tile_dot_vpdpbusd``
    ``tile_dot_paired``
dots of pairs of bfloat16
    ``tile_dot_vdpbf16ps``
matrix registers
    ``matrix_tiles(sums, row, rows, last, parts, panels, groups)`` ``matrix_configure(tiles)``
    ``matrix_clear(tiles, at, used)`` ``matrix_load(tiles, at, used)``
    ``matrix_store(tiles, at, used)`` ``matrix_release()`` ``tile_dot_tdpbf16ps``
    ``tile_dot_tdpbusd`` ``tile_dot_tdpbssd`` ``tile_dot_tdpbsud`` ``tile_dot_tdpbuud``
dots of weights from several places at a time
    ``tile_streams`` and ``tile_streams_<form>`` with the forms of the dots
tables
    ``look_up(p, v)`` ``take(p, v)``
elements at known places
    ``load_steps(p, i, step, lanes)``  ``pick(p, i, q, j, "0 0 1 1", lanes)``
lanes in another order
    ``even(v)`` ``odd(v)`` ``reverse(v)``
products of channels by themselves in such groups
    ``tile_taps_<form>`` with the forms of the dots, ``interleave(v, w)``
    ``spread(v, size, factors, part)``
low-bit weights
    ``tile_dot_codes dequantize_codes``
parts of convolutions
    ``copy_patch winograd_taps winograd_weights``
sums of blocks
    ``strassen_factors strassen_results strassen_recovered``
random numbers
    ``random_words random_words_anywhere``
shares of threads
    ``own_share(thread, threads, m, n, first)``

``p`` is a pointer argument, ``i`` an integer that counts elements, ``lanes`` an integer literal.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from numba import types
from numba.extending import intrinsic

from glow_nb.base.types import ElementKind
from glow_nb.simd import (
    arithmetic,
    codes,
    copies,
    division,
    dot,
    elementary,
    look_up,
    matrix_dots,
    matrix_registers,
    memory,
    outer_product,
    paired_dot,
    patch,
    philox,
    pick,
    reorder,
    rows,
    scalars,
    shares,
    strassen,
    stream,
    take,
    taps,
    tile,
    tile_memory,
    transpose,
    wide,
    window,
    winograd,
)
from glow_nb.simd.bfloat16 import BFLOAT16, flush_bfloat16
from glow_nb.simd.convert import bit_cast, convert, in_float32
from glow_nb.simd.elementwise import (
    are_alike,
    binary,
    clamping,
    clamping_around,
    conversion,
    fma,
    lanes_of,
    saturated_sum,
    saturation,
    unary,
    unary_in_step,
    where,
)
from glow_nb.simd.inverse_erf import inverse_erf
from glow_nb.simd.lanes import BOOL, FLOAT32, Lanes
from glow_nb.simd.types import Pointer, Vec, is_narrow, kernel_signature, scalar_type

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
    "positive_part": arithmetic.positive_part,
    "sqrt": arithmetic.sqrt,
    "rsqrt": arithmetic.rsqrt,
    "reciprocal": division.reciprocal,
    "floor": arithmetic.floor,
    "ceil": arithmetic.ceil,
    "rint": arithmetic.rint,
    "trunc": arithmetic.trunc,
}
_FUNCTIONS: dict[str, Callable[[Lanes], Lanes]] = {
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
"""Long chains of instructions."""
_BINARY: dict[str, Callable[[Lanes, Lanes], Lanes]] = {
    "add": arithmetic.add,
    "sub": arithmetic.sub,
    "mul": arithmetic.mul,
    "div": division.div,
    "floor_div": division.floor_div,
    "mod": division.mod,
    "fmod": division.fmod,
    "pow": _power,
    "maximum": arithmetic.maximum,
    "minimum": arithmetic.minimum,
    "at_least": arithmetic.at_least,
    "at_most": arithmetic.at_most,
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
    memory: "load load_masked load_between store store_masked broadcast at",
    copies: "copy clear fill",
    scalars: "get put",
    look_up: "look_up",
    take: "take",
    stream: "store_streaming to_line fence",
    tile: "tile_fill tile_zero tile_get tile_set tile_join tile_rows tile_columns tile_keep"
    " tile_any tile_is_finite",
    tile_memory: "tile_bias tile_load tile_load_masked tile_load_rows tile_store tile_store_masked",
    outer_product: "tile_fma",
    codes: "tile_dot_codes dequantize_codes",
    paired_dot: "tile_dot_paired",
    rows: "tile_multiply_rows tile_sum_lanes",
    taps: "interleave spread",
    matrix_registers: "matrix_tiles matrix_configure matrix_release",
    transpose: "tile_transpose tile_load_columns tile_prefetch",
    patch: "copy_patch",
    pick: "load_steps pick",
    reorder: "even odd reverse",
    philox: "random_words random_words_anywhere",
    shares: "own_share",
    strassen: "strassen_factors strassen_results strassen_recovered",
    window: "tile_bias_masked tile_slide tile_slide_groups",
    winograd: "tile_winograd_input tile_winograd_output winograd_taps winograd_weights",
}
"""What each module adds under its own name."""


def _reduction(operation: Callable[[Lanes, Lanes], Lanes]) -> Any:
    """Make an intrinsic that combines all lanes to one plain number."""

    @intrinsic
    def reduction(typing: Any, x: Any) -> Any:
        if not are_alike(x):
            return None

        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            vector = lanes_of(builder, arguments[0], x)
            narrow = is_narrow(x.kind)
            wide = convert(vector, FLOAT32) if narrow else vector
            return wide.reduce(operation)

        return scalar_type(x.kind)(x), codegen

    return reduction


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
    names |= {name: unary(widened(operation)) for name, operation in _UNARY.items()}
    names |= {name: unary_in_step(widened(operation)) for name, operation in _FUNCTIONS.items()}
    names |= {name: binary(widened(operation)) for name, operation in _BINARY.items()}
    names |= {name: binary(getattr(arithmetic, name)) for name in _BITS}
    names["bit_not"] = unary(arithmetic.bit_not)
    names |= {
        name: binary(widened(arithmetic.comparison(sign)), BOOL)
        for name, sign in _COMPARISONS.items()
    }
    names |= {name: _reduction(operation) for name, operation in _REDUCTIONS.items()}
    for name in ("isnan", "isinf"):
        names[name] = unary(widened(getattr(arithmetic, name)), BOOL)
    for kind in ElementKind:
        names[f"splat_{kind.value}"] = scalars.splat_of(kind)
        names[f"iota_{kind.value}"] = scalars.iota_of(kind)
        names[f"as_{kind.value}"] = memory.pointer_as(kind)
        names[f"convert_{kind.value}"] = conversion(convert, kind)
        names[f"saturate_{kind.value}"] = saturation(kind)
        names[f"bit_cast_{kind.value}"] = conversion(bit_cast, kind)
        if kind.value.startswith(("int", "uint")) and kind.bits <= 16:  # float32 holds the limits
            names[f"clamp_{kind.value}"] = clamping(kind)
            names[f"clamp_around_{kind.value}"] = clamping_around(kind)
            names[f"saturate_sum_{kind.value}"] = saturated_sum(kind)
    names["flush_bfloat16"] = unary(widened(flush_bfloat16), BFLOAT16)
    for module, members in _INTRINSICS.items():
        names |= {name: getattr(module, name) for name in members.split()}
    return names | dot.FUNCTIONS | matrix_registers.ON_BLOCKS | matrix_dots.FUNCTIONS


NAMESPACE: dict[str, object] = _namespace()
"""What generated source sees as its globals, besides Python's builtins."""
