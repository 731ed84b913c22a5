"""The element kinds of tensors."""

from __future__ import annotations

import enum
from typing import Any

import numpy as np
import numpy.typing as npt

from glow_nb.base.errors import GlowError
from glow_nb.base.override import override


class ElementKind(enum.Enum):
    """The kind of one element; the value is its name in IR text."""

    FLOAT16 = "float16"
    BFLOAT16 = "bfloat16"
    FLOAT32 = "float32"
    FLOAT64 = "float64"
    INT8 = "int8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    UINT8 = "uint8"
    UINT16 = "uint16"
    UINT32 = "uint32"
    UINT64 = "uint64"
    BOOL = "bool"
    FLOAT8E4M3FN = "float8e4m3fn"
    FLOAT8E4M3FNUZ = "float8e4m3fnuz"
    FLOAT8E5M2 = "float8e5m2"
    FLOAT8E5M2FNUZ = "float8e5m2fnuz"
    FLOAT8E8M0 = "float8e8m0"
    FLOAT6E2M3 = "float6e2m3"
    FLOAT6E3M2 = "float6e3m2"
    FLOAT4E2M1 = "float4e2m1"
    INT4 = "int4"
    UINT4 = "uint4"
    INT2 = "int2"
    UINT2 = "uint2"

    __hash__ = object.__hash__  # of an enum it would be that of the name, computed in Python

    @property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy dtype of an array of this kind."""
        if self not in _DTYPES:
            _learn_extensions()
        return _DTYPES[self]

    @property
    def size_bytes(self) -> int:
        """Bytes of one element in memory."""
        return self.dtype.itemsize

    @property
    def is_float(self) -> bool:
        """True for the four floating-point kinds that are computed with."""
        return self in _FLOATS

    @property
    def is_storage(self) -> bool:
        """True for the kinds that are stored, moved and converted, but not computed with.

        One element takes a byte, of which the low :attr:`bits` are used.
        """
        return self in _STORAGE

    @property
    def bits(self) -> int:
        """Used bits of an element, which may take more memory."""
        return _FEW_BITS.get(self, 8 * self.size_bytes)

    @property
    def is_signed(self) -> bool:
        """True for the kinds that have negative values."""
        return self.value.startswith(("int", "float", "bfloat")) and self is not self.FLOAT8E8M0

    @property
    def limits(self) -> tuple[int, int]:
        """The least and the greatest number of a kind of integers."""
        if self.is_signed:
            return -(1 << self.bits - 1), (1 << self.bits - 1) - 1
        return 0, (1 << self.bits) - 1

    @classmethod
    def of(cls, dtype: npt.DTypeLike) -> ElementKind:
        """Return the kind of a NumPy *dtype*; raise GlowError for one that has none."""
        wanted = np.dtype(dtype)
        if wanted not in _KINDS and wanted.isbuiltin != 1:
            _learn_extensions()
        kind = _KINDS.get(wanted)
        if kind is not None:
            return kind
        names = ", ".join(kind.value for kind in cls)
        raise GlowError(f"dtype {wanted} has no element kind; convert it to one of {names}")

    @override
    def __repr__(self) -> str:
        return self.value


_FLOATS = frozenset(
    {ElementKind.FLOAT16, ElementKind.BFLOAT16, ElementKind.FLOAT32, ElementKind.FLOAT64}
)
_EXTENSIONS = {
    ElementKind.BFLOAT16: "bfloat16",
    ElementKind.FLOAT8E4M3FN: "float8_e4m3fn",
    ElementKind.FLOAT8E4M3FNUZ: "float8_e4m3fnuz",
    ElementKind.FLOAT8E5M2: "float8_e5m2",
    ElementKind.FLOAT8E5M2FNUZ: "float8_e5m2fnuz",
    ElementKind.FLOAT8E8M0: "float8_e8m0fnu",
    ElementKind.FLOAT6E2M3: "float6_e2m3fn",
    ElementKind.FLOAT6E3M2: "float6_e3m2fn",
    ElementKind.FLOAT4E2M1: "float4_e2m1fn",
    ElementKind.INT4: "int4",
    ElementKind.UINT4: "uint4",
    ElementKind.INT2: "int2",
    ElementKind.UINT2: "uint2",
}
"""What ml_dtypes calls the kinds that NumPy does not have."""

_STORAGE = frozenset(_EXTENSIONS) - _FLOATS
_FEW_BITS = {
    ElementKind.FLOAT6E2M3: 6,
    ElementKind.FLOAT6E3M2: 6,
    ElementKind.FLOAT4E2M1: 4,
    ElementKind.INT4: 4,
    ElementKind.UINT4: 4,
    ElementKind.INT2: 2,
    ElementKind.UINT2: 2,
}
_DTYPES: dict[ElementKind, np.dtype[Any]] = {
    kind: np.dtype(kind.value) for kind in ElementKind if kind not in _EXTENSIONS
}
_KINDS = {dtype: kind for kind, dtype in _DTYPES.items()}


def _learn_extensions() -> None:
    """Add the dtypes of ml_dtypes, whose import takes as long as to load a small network."""
    import ml_dtypes

    for kind, name in _EXTENSIONS.items():
        _DTYPES[kind] = np.dtype(getattr(ml_dtypes, name))
        _KINDS[_DTYPES[kind]] = kind
