"""numba types of the SIMD layer: vectors, pointers and register tiles, and what they are in LLVM.

A vector value is a bare LLVM vector (``<8 x float>``), so it lives in registers through numba's
variables, loops and calls. A ``bool`` vector is ``<n x i1>``, a ``bool`` in memory one byte, 0 or 1.
``bfloat16`` is carried as its 16 bits; arithmetic on the 16-bit floats is done in ``float32`` and
rounded after each step, as NumPy does.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import models, register_model

from glow_nb.types import ElementKind

INDEX = ir.IntType(64)
POINTER = ir.PointerType()
MEMORY_BOOL = ir.IntType(8)

_LLVM_FLOATS = {
    ElementKind.FLOAT16: ir.HalfType(),
    ElementKind.BFLOAT16: ir.IntType(16),
    ElementKind.FLOAT32: ir.FloatType(),
    ElementKind.FLOAT64: ir.DoubleType(),
}


def llvm_element(kind: ElementKind) -> Any:
    """Return the LLVM type of one element of a vector of *kind*."""
    if kind is ElementKind.BOOL:
        return ir.IntType(1)
    return _LLVM_FLOATS.get(kind) or ir.IntType(kind.size_bytes * 8)


def llvm_memory_element(kind: ElementKind) -> Any:
    """Return the LLVM type of one element of *kind* in memory."""
    return MEMORY_BOOL if kind is ElementKind.BOOL else llvm_element(kind)


def llvm_vector(kind: ElementKind, lanes: int) -> Any:
    """Return the LLVM type of a vector."""
    return ir.VectorType(llvm_element(kind), lanes)


def scalar_type(kind: ElementKind) -> Any:
    """Return the numba type of one element; the 16-bit floats are widened to ``float32``."""
    if kind is ElementKind.BOOL:
        return types.boolean
    if kind in (ElementKind.FLOAT16, ElementKind.BFLOAT16):
        return types.float32
    return getattr(types, kind.value)


class Vec(types.Type):
    """A vector of ``lanes`` elements of ``kind``."""

    def __init__(self, kind: ElementKind, lanes: int) -> None:
        self.kind, self.lanes = kind, lanes
        super().__init__(name=f"{kind.value}x{lanes}")


class Pointer(types.Type):
    """The address of elements of ``kind`` in memory."""

    def __init__(self, kind: ElementKind) -> None:
        self.kind = kind
        super().__init__(name=f"{kind.value}*")


class Tile(types.Type):
    """``rows`` x ``vectors`` accumulators as one value, row-major; stays in registers."""

    def __init__(self, kind: ElementKind, lanes: int, rows: int, vectors: int) -> None:
        self.kind, self.lanes, self.rows, self.vectors = kind, lanes, rows, vectors
        super().__init__(name=f"tile{rows}x{vectors}_{kind.value}x{lanes}")

    @property
    def vector(self) -> Vec:
        """Type of one accumulator."""
        return Vec(self.kind, self.lanes)


@register_model(Vec)
class _VecModel(models.PrimitiveModel):
    def __init__(self, manager: Any, vector: Vec) -> None:
        super().__init__(manager, vector, llvm_vector(vector.kind, vector.lanes))


@register_model(Pointer)
class _PointerModel(models.PrimitiveModel):
    def __init__(self, manager: Any, pointer: Pointer) -> None:
        super().__init__(manager, pointer, POINTER)


@register_model(Tile)
class _TileModel(models.PrimitiveModel):
    def __init__(self, manager: Any, tile: Tile) -> None:
        vector = llvm_vector(tile.kind, tile.lanes)
        super().__init__(manager, tile, ir.ArrayType(vector, tile.rows * tile.vectors))


def kernel_signature(arguments: tuple[ElementKind, ...]) -> Any:
    """Return the numba signature of a kernel: its pointers, scratch, thread, threads."""
    pointers = [Pointer(kind) for kind in arguments]
    return types.void(*pointers, Pointer(ElementKind.UINT8), types.int64, types.int64)
