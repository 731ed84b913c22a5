"""Functions of each element by itself: intrinsics made of operations on vectors.

Operands are vectors or register tiles of one kind and width; a vector that meets a tile goes with
each vector of the tile.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba.extending import intrinsic

from glow_nb.base.types import ElementKind
from glow_nb.simd import arithmetic
from glow_nb.simd.convert import (
    clamp,
    clamp_around,
    in_float32,
    saturate_all,
    saturate_sum,
)
from glow_nb.simd.in_step import all_in_step
from glow_nb.simd.lanes import BOOL, FLOAT32, Lanes
from glow_nb.simd.tile import tile_of
from glow_nb.simd.types import RegisterTile, Vec


def lanes_of(builder: Any, value: Any, vector: Vec) -> Lanes:
    """Return an LLVM *value* of the type *vector*."""
    return Lanes(builder, value, vector.kind, vector.lanes)


def are_alike(*operands: Any) -> bool:
    """Return whether all are vectors, or register tiles, of one kind and width."""
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
        return operation(*(lanes_of(builder, value, type) for value, type in pairs)).value
    columns = (_parts(builder, value, type, result) for value, type in pairs)
    made = (operation(*each).value for each in zip(*columns, strict=True))
    return tile_of(builder, result, made)


def _of_one(operation: Callable[[list[Lanes]], list[Lanes]], kind: ElementKind | None) -> Any:
    """Make an intrinsic of one vector, or of all vectors of a tile, which *operation* takes."""

    @intrinsic
    def of_one(typing: Any, x: Any) -> Any:
        if not are_alike(x):
            return None
        result = _together(kind, x)

        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            if isinstance(x, Vec):
                (made,) = operation([lanes_of(builder, arguments[0], x)])
                return made.value
            parts = operation(_parts(builder, arguments[0], x, result))
            return tile_of(builder, result, (part.value for part in parts))

        return result(x), codegen

    return of_one


def unary(operation: Callable[[Lanes], Lanes], kind: ElementKind | None = None) -> Any:
    """Make an intrinsic of one vector or tile; the result has *kind* or that of the operand."""
    return _of_one(lambda parts: [operation(part) for part in parts], kind)


def unary_in_step(operation: Callable[[Lanes], Lanes]) -> Any:
    """Make an intrinsic of one vector or tile, whose registers go through *operation* in step."""
    return _of_one(lambda parts: all_in_step(operation, parts), None)


def binary(operation: Callable[[Lanes, Lanes], Lanes], kind: ElementKind | None = None) -> Any:
    """Make an intrinsic of two vectors or tiles alike; the result has *kind* or theirs."""

    @intrinsic
    def of_two(typing: Any, lhs: Any, rhs: Any) -> Any:
        if not are_alike(lhs, rhs):
            return None
        result = _together(kind, lhs, rhs)

        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return _apply(builder, operation, result, signature, arguments)

        return (result(lhs, rhs), codegen) if result else None

    return of_two


def conversion(operation: Callable[[Lanes, ElementKind], Lanes], kind: ElementKind) -> Any:
    """Make an intrinsic of one vector or tile whose result has *kind*."""
    return unary(lambda x: operation(x, kind), kind)


def clamping(kind: ElementKind) -> Any:
    """Make the intrinsic of one vector or tile that stays within the limits of *kind*."""
    return unary(lambda x: clamp(x, kind))


def clamping_around(kind: ElementKind) -> Any:
    """Make the intrinsic of two vectors or tiles: their sum within *kind*, less the second."""
    return binary(lambda x, offset: clamp_around(x, offset, kind))


def saturation(kind: ElementKind) -> Any:
    """Make the intrinsic of one vector or tile that rounds to the nearest numbers of *kind*."""
    return _of_one(lambda parts: saturate_all(parts, kind), kind)


def saturated_sum(kind: ElementKind) -> Any:
    """Make the intrinsic that rounds a vector or tile, adds integers of *kind* and saturates."""

    @intrinsic
    def rounded_and_added(typing: Any, x: Any, offset: Any) -> Any:
        if not (are_alike(x) and are_alike(offset) and x.kind is FLOAT32 and offset.kind is kind):
            return None
        result = _together(kind, x, offset)
        if x.lanes != offset.lanes or result is None:
            return None

        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            if isinstance(result, Vec):
                pairs = zip(arguments, (x, offset), strict=True)
                number, added = (lanes_of(builder, value, type) for value, type in pairs)
                return saturate_sum(number, added, kind).value
            parts, offsets = (
                _parts(builder, value, type, result)
                for value, type in zip(arguments, (x, offset), strict=True)
            )
            made = saturate_all(parts, kind, offsets)
            return tile_of(builder, result, (part.value for part in made))

        return result(x, offset), codegen

    return rounded_and_added


def _parts(builder: Any, value: Any, operand: Any, tile: RegisterTile) -> list[Lanes]:
    """Return the vectors of an operand beside a *tile*, a vector as often as that has vectors."""
    count = tile.rows * tile.vectors
    if isinstance(operand, Vec):
        return [lanes_of(builder, value, operand)] * count
    values = (builder.extract_value(value, part) for part in range(count))
    return [lanes_of(builder, part, operand.vector) for part in values]


@intrinsic
def fma(typing: Any, lhs: Any, rhs: Any, addend: Any) -> Any:
    """``fma(a, b, c)``: ``a * b + c``, rounded once."""
    if not are_alike(lhs, rhs, addend):
        return None
    result = _together(None, lhs, rhs, addend)
    operation = in_float32(arithmetic.fma)

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _apply(builder, operation, result, signature, arguments)

    return (result(lhs, rhs, addend), codegen) if result else None


@intrinsic
def where(typing: Any, condition: Any, yes: Any, no: Any) -> Any:
    """``where(c, a, b)``: a where the bool vector c is true, else b."""
    if not (are_alike(yes, no) and are_alike(condition) and condition.kind is BOOL):
        return None
    if condition.lanes != yes.lanes:
        return None
    result = _together(yes.kind, condition, yes, no)

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        def choose(c: Lanes, a: Lanes, b: Lanes) -> Lanes:
            return a.like(builder.select(c.value, a.value, b.value))

        return _apply(builder, choose, result, signature, arguments)

    return (result(condition, yes, no), codegen) if result else None
