"""numba types of the SIMD layer: vectors, pointers and register tiles, and what they are in LLVM.

A vector value is a bare LLVM vector (``<8 x float>``), so it lives in registers through numba's
variables, loops and calls. A ``bool`` vector is ``<n x i1>``, in memory a ``bool`` is one byte.
The 16-bit floats are carried as their bits, which LLVM cannot compute with, and a number of a
storage kind as its byte. Arithmetic on the 16-bit floats is done in ``float32`` and rounded after
each step, as NumPy does.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import models, register_model
from typing_extensions import override

from glow_nb.base.types import ElementKind

INDEX = ir.IntType(64)
POINTER = ir.IntType(8).as_pointer()
"""numba asks for the pointee of what it keeps in a variable, so a pointer has one."""

MEMORY_BOOL = ir.IntType(8)

_LLVM_FLOATS = {
    ElementKind.FLOAT16: ir.IntType(16),
    ElementKind.BFLOAT16: ir.IntType(16),
    ElementKind.FLOAT32: ir.FloatType(),
    ElementKind.FLOAT64: ir.DoubleType(),
}


class BFloat(ir.HalfType):
    """LLVM's type of bfloat16, for instructions that take it; llvmlite has none."""

    def __new__(cls) -> BFloat:
        """Make one of its own: llvmlite keeps one instance of the type of half floats."""
        return object.__new__(cls)

    @override
    def __str__(self) -> str:
        return "bfloat"


def is_narrow(kind: ElementKind) -> bool:
    """True for the 16-bit floats."""
    return kind in (ElementKind.FLOAT16, ElementKind.BFLOAT16)


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
    """Return the numba type of one element.

    The 16-bit floats are widened to ``float32``; of a storage kind it is the byte.
    """
    if kind is ElementKind.BOOL:
        return types.boolean
    if is_narrow(kind):
        return types.float32
    return types.uint8 if kind.is_storage else getattr(types, kind.value)


class Vec(types.Type):
    """A vector of ``lanes`` elements of ``kind``."""

    def __init__(self, kind: ElementKind, lanes: int) -> None:
        self.kind, self.lanes = kind, lanes
        super().__init__(name=f"{kind.value}x{lanes}")

    @property
    def llvm(self) -> Any:
        """The LLVM type."""
        return llvm_vector(self.kind, self.lanes)


class Pointer(types.Type):
    """The address of elements of ``kind`` in memory."""

    def __init__(self, kind: ElementKind) -> None:
        self.kind = kind
        super().__init__(name=f"{kind.value}*")

    @property
    def llvm(self) -> Any:
        """The LLVM type."""
        return POINTER


class RegisterTile(types.Type):
    """``rows`` x ``vectors`` accumulators as one value, row-major; stays in registers."""

    def __init__(self, kind: ElementKind, lanes: int, rows: int, vectors: int) -> None:
        self.kind, self.lanes, self.rows, self.vectors = kind, lanes, rows, vectors
        super().__init__(name=f"tile{rows}x{vectors}_{kind.value}x{lanes}")

    @property
    def vector(self) -> Vec:
        """Type of one accumulator."""
        return Vec(self.kind, self.lanes)

    @property
    def llvm(self) -> Any:
        """The LLVM type."""
        return ir.ArrayType(llvm_vector(self.kind, self.lanes), self.rows * self.vectors)


class MatrixTiles(types.Type):
    """``parts`` x ``panels`` matrix registers of sums, which also have a place in memory.

    Each has 16 columns, and a number of rows that only the last part may have fewer of. A step
    multiplies ``groups`` groups of neighbours.
    """

    def __init__(self, kind: ElementKind, parts: int, panels: int, groups: int) -> None:
        self.kind, self.parts, self.panels, self.groups = kind, parts, panels, groups
        super().__init__(name=f"matrix{parts}x{panels}x{groups}_{kind.value}")

    @property
    def llvm(self) -> Any:
        """The LLVM type: where the sums lie in memory, how far apart rows are, and the rows."""
        return ir.LiteralStructType([POINTER, INDEX, INDEX, INDEX])


@register_model(Vec)
@register_model(Pointer)
@register_model(RegisterTile)
@register_model(MatrixTiles)
class _Model(models.PrimitiveModel):
    """In LLVM, a type of this module is a value of its type ``llvm``."""

    def __init__(self, manager: Any, described: Vec | Pointer | RegisterTile | MatrixTiles) -> None:
        untyped: Any = super()
        untyped.__init__(manager, described, described.llvm)


def kernel_signature(arguments: tuple[ElementKind, ...]) -> Any:
    """Return the numba signature of a kernel: its pointers, scratch, thread, threads."""
    pointers = [Pointer(kind) for kind in arguments]
    return types.void(*pointers, Pointer(ElementKind.UINT8), types.int64, types.int64)
