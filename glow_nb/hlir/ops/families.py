"""Shared code of families of operators: element kind sets, broadcasting, and rounding of results.

``evaluate`` is the reference for compiled code. It computes floats in float64
and integers in their own kind, and rounds once, when the result is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from typing_extensions import override

from glow_nb.base.errors import KindError, VerifyError
from glow_nb.base.schema import Unsaid
from glow_nb.base.size import same, same_shape
from glow_nb.base.types import Array, ElementKind, TensorType
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Constant, Node, Value
from glow_nb.system.freed_memory import mapped_empty

Kinds = frozenset[ElementKind]

BOOL: Kinds = frozenset({ElementKind.BOOL})
ALL: Kinds = frozenset(ElementKind)
COMPUTED: Kinds = frozenset(kind for kind in ElementKind if not kind.is_storage)
FLOATS: Kinds = frozenset(kind for kind in ElementKind if kind.is_float)
NARROW_FLOATS: Kinds = frozenset({ElementKind.FLOAT16, ElementKind.BFLOAT16})
NUMBERS: Kinds = COMPUTED - BOOL
INTEGERS: Kinds = NUMBERS - FLOATS
SIGNED: Kinds = frozenset(kind for kind in NUMBERS if kind.is_signed)
INDICES: Kinds = frozenset({ElementKind.INT32, ElementKind.INT64})
SHORT_INTEGERS: Kinds = frozenset(kind for kind in INTEGERS if kind.bits < ElementKind.INT32.bits)

_SIGNIFICANT_BITS = {
    ElementKind.FLOAT16: 11,
    ElementKind.BFLOAT16: 8,
    ElementKind.FLOAT32: 24,
    ElementKind.FLOAT64: 53,
}


_HOLD_STORAGE = (ElementKind.FLOAT32, ElementKind.FLOAT64)
"""The kinds that hold every number of every storage kind."""


def keeps_every_number(source: ElementKind, target: ElementKind) -> bool:
    """Return whether *target* represents every number of *source*, so that conversion is exact."""
    if source is target:
        return True
    if source.is_storage or target.is_storage:
        return source.is_storage and target in _HOLD_STORAGE
    if source is ElementKind.BOOL:
        return True
    if target is ElementKind.BOOL or (source.is_float and not target.is_float):
        return False
    if not target.is_float:
        wider = target.size_bytes > source.size_bytes
        return wider and (target.is_signed or not source.is_signed)
    if source.is_float:
        return target in (ElementKind.FLOAT32, ElementKind.FLOAT64) and (
            target.size_bytes > source.size_bytes
        )
    if target in NARROW_FLOATS:
        return source.size_bytes == 1 and (target is ElementKind.FLOAT16 or source.is_signed)
    return source.size_bytes * 8 <= _SIGNIFICANT_BITS[target]


def require_kind(node: Node, operand: str, type: TensorType, kinds: Kinds) -> None:
    """Raise VerifyError unless *type*, that of the operand *name*, is plain and of *kinds*.

    For another kind, it is a KindError.
    """
    if type.kind not in kinds:
        names = ", ".join(kind.value for kind in ElementKind if kind in kinds)
        raise KindError(node, f"'{operand}' is {type}, but its kind must be one of {names}")
    if type.is_quantized:
        raise VerifyError(
            node, f"'{operand}' is {type}, but this operator takes no quantized operand; dequantize"
        )


def require_type(node: Node, operand: str, wanted: TensorType, given: str) -> None:
    """Raise VerifyError unless the *operand* so called, if it is there, is of type *wanted*.

    *given* is the operand that requires that type, by its name, or how errors refer to it.
    """
    found, other = getattr(node, operand), getattr(node, given, None)
    if found is not None and not fits(found.type, wanted):
        cause = f"{given} {other.type}" if isinstance(other, Value) else given
        raise VerifyError(node, f"'{operand}' is {found.type}, but {cause} needs {wanted}")


def sum_kind(lhs: ElementKind, rhs: ElementKind) -> ElementKind | None:
    """Return the kind of sums of products, None for factors that have no product.

    Integers of 8 and 16 bits and int32, which may be of different kinds, are summed up in int32,
    where sums wrap around; two factors of one other kind are summed up in that kind.
    """
    if {lhs, rhs} <= SHORT_INTEGERS | {ElementKind.INT32}:
        return ElementKind.INT32
    return lhs if lhs is rhs else None


Wide = Annotated[bool, Unsaid()]
"""The attribute of a product whose result, and bias, are of the kind in which sums are computed:
float32 for operands of bfloat16 and float16, which are multiplied exactly."""


def product_kind(
    node: Node, lhs: TensorType, rhs: TensorType, *, wide: bool = False
) -> ElementKind:
    """Return the kind of the result of products of two operands; raise VerifyError without one.

    Args:
        node: The product.
        lhs: The left operand.
        rhs: The right one.
        wide: Whether the sums of 16-bit floats are not rounded to these.
    """
    kind = sum_kind(lhs.kind, rhs.kind)
    node.require(
        not (lhs.is_quantized or rhs.is_quantized),
        f"operands are {lhs} and {rhs}, but this operator takes no quantized one; dequantize",
    )
    if kind is None:
        raise VerifyError(node, f"element kinds differ: {lhs} and {rhs}; convert one")
    if not wide:
        return kind
    node.require(
        kind in NARROW_FLOATS,
        f"operands are {lhs} and {rhs}, but wide products are of bfloat16 or float16; leave wide "
        "out",
    )
    return ElementKind.FLOAT32


def fits(type: TensorType, wanted: TensorType) -> bool:
    """Return whether *type* is the one *wanted*, for the sizes at hand."""
    if type == wanted or not (type.is_open or wanted.is_open):
        return type == wanted
    return type.with_shape(wanted.shape) == wanted and same_shape(type.shape, wanted.shape)


def require_axis(node: Node, axis: int, rank: int) -> None:
    """Raise VerifyError unless *axis* counts from the front of a tensor of *rank*."""
    if not 0 <= axis < rank:
        raise VerifyError(
            node, f"axis {axis} is outside a tensor of rank {rank}; count it from 0 to {rank - 1}"
        )


def broadcast_type(node: Node, **operands: TensorType) -> TensorType:
    """Return the type that *operands* of one kind broadcast to.

    Ranks must be equal, and in each dimension the sizes equal or 1.
    """
    (first_name, first), *others = operands.items()
    shape = first.shape
    for name, type in others:
        both = (first_name, first, name, type)
        if type.kind != first.kind:
            raise _unlike(node, "element kinds differ", both, "convert one")
        if type.rank != first.rank:
            raise _unlike(node, "ranks differ", both, "reshape one")
        if any(1 not in (m, n) and not same(m, n) for m, n in zip(shape, type.shape, strict=True)):
            advice = "in each dimension the sizes must be equal or 1"
            raise _unlike(node, "shapes do not broadcast", both, advice)
        shape = tuple(n if m == 1 else m for m, n in zip(shape, type.shape, strict=True))
    return TensorType(first.kind, shape)


def _unlike(
    node: Node, problem: str, operands: tuple[str, TensorType, str, TensorType], advice: str
) -> VerifyError:
    first_name, first, name, type = operands
    return VerifyError(node, f"{problem}: '{first_name}' is {first}, '{name}' is {type}; {advice}")


def wide(array: Array) -> Any:
    """Return floats as float64, anything else as it is: the precision ``evaluate`` computes in."""
    if ElementKind.of(array.dtype).is_float:
        return array.astype(np.float64)
    return array


def widest(array: Array) -> Any:
    """Return floats as float64, integers as int64 or, if they may be larger, uint64: for sums."""
    kind = ElementKind.of(array.dtype)
    if kind.is_float:
        return array.astype(np.float64)
    return array.astype(np.int64 if kind.is_signed or kind in SHORT_INTEGERS else np.uint64)


def fitted(values: Any, type: TensorType) -> Array:
    """Return *values* rounded to the kind of *type*, contiguous and of its shape.

    The result may be *values* itself, if it is like that already.
    """
    with np.errstate(all="ignore"):
        array = np.asarray(values).astype(type.kind.dtype, order="C", copy=False)
    return array.reshape(type.shape)


def by_elements(compute: Callable[..., Any], operands: Sequence[Array], type: TensorType) -> Array:
    """Return ``compute`` of the elements of *operands*, with floats as float64, rounded to *type*.

    Operands are repeated to the shape of *type*. It is computed in blocks that stay in the caches.
    """
    result = mapped_empty(type)
    modes: list[list[Literal["readonly", "writeonly"]]] = [["readonly"] for _ in operands]
    kinds = [ElementKind.of(array.dtype) for array in operands]
    dtypes = [ElementKind.FLOAT64.dtype if kind.is_float else kind.dtype for kind in kinds]
    with (
        np.errstate(all="ignore"),
        np.nditer(
            [*operands, result],
            flags=["buffered", "external_loop", "zerosize_ok"],
            op_flags=[*modes, ["writeonly"]],
            op_dtypes=[*dtypes, result.dtype],
            order="C",
            casting="unsafe",
        ) as blocks,
    ):
        for *elements, place in blocks:
            place[...] = compute(*elements)
    return result


def splat(builder: Builder, type: TensorType, value: Any, name: str) -> Constant:
    """Return a constant of one element that broadcasts to *type*."""
    array = np.full((1,) * type.rank, value, type.kind.dtype)
    return builder.constant(name, array, is_weight=False)


def bounds_of(kind: ElementKind) -> tuple[Any, Any]:
    """Return the least and the greatest value of *kind*; infinities for floats."""
    if kind.is_float:
        return -np.inf, np.inf
    if kind is ElementKind.BOOL:
        return False, True
    return kind.limits


@dataclass(frozen=True, eq=False, repr=False)
class UnaryElementwise(Node):
    """Base of operators that map each element on its own: ``result[i] = f(input[i])``.

    Subclasses name the ``kinds`` they take and give ``compute``, a method or a function of NumPy,
    which sees floats as float64.

    Attributes:
        input: The operand.
    """

    kinds: ClassVar[Kinds] = FLOATS
    compute: ClassVar[Callable[..., Any]]
    input: Value

    @override
    def infer_type(self) -> TensorType:
        require_kind(self, "input", self.input.type, self.kinds)
        return self.input.type

    @override
    def evaluate(self, input: Array) -> Array:
        return by_elements(self.compute, (input,), self.type)


@dataclass(frozen=True, eq=False, repr=False)
class BinaryElementwise(Node):
    """Base of operators on two tensors: ``result[i] = f(lhs[i], rhs[i])``, broadcasting.

    Both operands have one kind and rank; a dimension of size 1 is repeated to fit the other.

    Attributes:
        lhs: The left operand.
        rhs: The right operand.
    """

    kinds: ClassVar[Kinds] = NUMBERS
    compute: ClassVar[Callable[..., Any]]
    lhs: Value
    rhs: Value

    @override
    def infer_type(self) -> TensorType:
        require_kind(self, "lhs", self.lhs.type, self.kinds)
        require_kind(self, "rhs", self.rhs.type, self.kinds)
        return broadcast_type(self, lhs=self.lhs.type, rhs=self.rhs.type)

    @override
    def evaluate(self, lhs: Array, rhs: Array) -> Array:
        return by_elements(self.compute, (lhs, rhs), self.type)


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(BinaryElementwise):
    """Base of comparisons: like :class:`BinaryElementwise`, but the result is bool."""

    @override
    def infer_type(self) -> TensorType:
        return super().infer_type().with_kind(ElementKind.BOOL)
