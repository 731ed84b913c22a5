"""Tensor types, shared by both IRs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from glow_nb.base.element_kind import ElementKind as ElementKind
from glow_nb.base.errors import GlowError
from glow_nb.base.override import override
from glow_nb.base.size import at, bounds, symbols_of

Array = npt.NDArray[Any]

MAX_RANK = 64
"""NumPy's arrays have no more dimensions."""

MAX_TENSOR_BYTES = 1 << 40
"""No tensor may be larger: such a size is a mistake or an attack, not a network."""


QUANTIZED = frozenset(
    {
        *(ElementKind.INT8, ElementKind.UINT8, ElementKind.INT16, ElementKind.UINT16),
        ElementKind.INT32,
    }
)
"""The kinds whose integers may represent real numbers."""


def quantization_problem(kind: ElementKind, scale: float, offset: int) -> str:
    """Return what is wrong with *scale* and *offset* for integers of *kind*; empty if they are
    valid.

    The scale is used in float32, so it must be a positive number there, too.
    """
    if kind not in QUANTIZED:
        names = ", ".join(k.value for k in ElementKind if k in QUANTIZED)
        return f"{kind.value} cannot be a quantized kind; quantize to one of {names}"
    with np.errstate(over="ignore"):
        is_usable = 0 < np.float32(scale) < np.inf
    if not is_usable:
        return f"scale {scale} must be positive and finite in float32; compute it from a range"
    least, greatest = kind.limits
    if not least <= offset <= greatest:
        return f"offset {offset} is outside {kind.value}; give one from {least} to {greatest}"
    return ""


_NUMBERS = frozenset({int})


def _negative(shape: tuple[int, ...]) -> int:
    """Return a number below 0 if a size of *shape* is negative whatever its symbols are."""
    return min(bounds(size)[1] for size in shape)


@dataclass(frozen=True, repr=False)
class TensorType:
    """Element kind and shape of a tensor, printed ``float32<2 x 3>``.

    A quantized type carries ``scale`` and ``offset``, and its integers represent real numbers:
    ``real = (stored - offset) * scale`` (paper 4.1). Per-channel scales are operands of the node
    that uses them. The scale is a number of float32, kept as the shortest decimal that rounds to
    it, so that types with the same scale are equal.

    An open size is a :class:`glow_nb.base.size.Size`, as in ``float32<batch x length x 768>``.

    Attributes:
        kind: The kind of each element.
        shape: The sizes, the outermost first.
        scale: The scale of a quantized type: the step from one real number to the next; None
            otherwise.
        offset: The offset of a quantized type: the integer that represents 0; None otherwise.
    """

    kind: ElementKind
    shape: tuple[int, ...]
    scale: float | None = None
    offset: int | None = None

    def __post_init__(self) -> None:
        if len(self.shape) > MAX_RANK:
            raise GlowError(
                f"a {self.kind.value} tensor of {len(self.shape)} dimensions: at most {MAX_RANK} "
                "are possible; reshape it"
            )
        is_open = not _NUMBERS.issuperset(map(type, self.shape)) and bool(symbols_of(*self.shape))
        if (min(self.shape, default=0) if not is_open else _negative(self.shape)) < 0:
            raise GlowError(f"shape {list(self.shape)}: a dimension is negative")
        size = prod(self.shape)  # which everybody asks for
        size_bytes = size * self.kind.size_bytes
        self.__dict__.update(size=size, size_bytes=size_bytes, is_open=is_open)
        least = bounds(size_bytes)[0] if is_open else size_bytes
        if least > MAX_TENSOR_BYTES:
            raise GlowError(
                f"{self}: {least} bytes are more than the limit of {MAX_TENSOR_BYTES} bytes of a "
                "tensor; check the shape"
            )
        if (self.scale is None) != (self.offset is None):
            raise GlowError(f"{self.kind.value}: a quantized type needs both scale and offset")
        if self.scale is not None and self.offset is not None:
            problem = quantization_problem(self.kind, self.scale, self.offset)
            if problem:
                raise GlowError(f"type {self}: {problem}")
            object.__setattr__(self, "scale", float(str(np.float32(self.scale))))

    @classmethod
    def of(cls, array: Array) -> TensorType:
        """Return the type of *array*."""
        return cls(ElementKind.of(array.dtype), tuple(int(n) for n in array.shape))

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @cached_property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @cached_property
    def size_bytes(self) -> int:
        """Bytes of a contiguous tensor of this type."""
        return self.size * self.kind.size_bytes

    @cached_property
    def is_open(self) -> bool:
        """Whether it has an open size."""
        return bool(symbols_of(*self.shape))

    def at(self, sizes: Mapping[str, int]) -> TensorType:
        """Return the type for *sizes* by the name of the symbol."""
        return self.with_shape(tuple(at(n, sizes) for n in self.shape)) if self.is_open else self

    @property
    def is_quantized(self) -> bool:
        """Return whether the integers represent real numbers by scale and offset."""
        return self.scale is not None

    def with_shape(self, shape: tuple[int, ...]) -> TensorType:
        """Return the same kind of tensor with another *shape*."""
        return TensorType(self.kind, shape, self.scale, self.offset)

    def with_kind(self, kind: ElementKind) -> TensorType:
        """Return a tensor of plain *kind* with the same shape."""
        return TensorType(kind, self.shape)

    @property
    def quantization(self) -> tuple[float, int]:
        """Scale and offset of a quantized type."""
        assert self.scale is not None
        assert self.offset is not None
        return self.scale, self.offset

    @property
    def stored(self) -> TensorType:
        """The plain type of the elements in memory."""
        return TensorType(self.kind, self.shape) if self.is_quantized else self

    @override
    def __str__(self) -> str:
        return self._text

    @cached_property
    def _text(self) -> str:
        inside = " x ".join(map(str, self.shape))
        if self.is_quantized:
            inside += f"{', ' if inside else ''}scale = {self.scale!r}, offset = {self.offset}"
        return f"{self.kind.value}<{inside}>"

    __repr__ = __str__


Dimensions = tuple[int | str, ...]
"""A shape whose sizes are not all known: for each dimension its size, or the name of it."""


@dataclass(frozen=True, repr=False)
class SymbolicType:
    """The type of a tensor as it is declared, printed ``float32<batch x 3>``.

    Attributes:
        kind: The kind of its elements; None if that is not known yet.
        shape: A size or the name of one for each dimension; None if not even the rank is known.
    """

    kind: ElementKind | None
    shape: Dimensions | None

    @override
    def __str__(self) -> str:
        inside = "any shape" if self.shape is None else " x ".join(map(str, self.shape))
        return f"{self.kind.value if self.kind else 'any kind'}<{inside}>"

    __repr__ = __str__


def symbolic(type: TensorType) -> SymbolicType:
    """Return *type* with the text of each open size."""
    return SymbolicType(type.kind, tuple(n if isinstance(n, int) else str(n) for n in type.shape))
