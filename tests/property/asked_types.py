"""Types of operands that remember what an operator asked about them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from typing_extensions import override

from glow_nb.base.types import ElementKind, TensorType


@dataclass
class Memory:
    """What an operator asked about the types of its operands before it complained."""

    questions: int = 0
    others: list[TensorType] = field(default_factory=list)


@dataclass(frozen=True, repr=False)
class AskedType(TensorType):
    """A type that remembers how often it was asked, and from which types it was found different."""

    memory: Memory = field(default_factory=Memory)

    @override
    def __getattribute__(self, name: str) -> Any:
        """Count the question and answer it."""
        memory: Memory = object.__getattribute__(self, "memory")
        memory.questions += 1
        return object.__getattribute__(self, name)

    @override
    def __eq__(self, other: object) -> bool:
        """Compare kinds, shapes and quantization."""
        if not isinstance(other, TensorType):
            return False
        is_same = _parts(self) == _parts(other)
        if not is_same:
            self.memory.others.append(plain(other))
        return is_same

    @override
    def __hash__(self) -> int:
        """Return what an equal plain type returns."""
        return hash(plain(self))


def _parts(
    type: TensorType,
) -> tuple[ElementKind, tuple[int, ...], float | None, int | None]:
    return type.kind, type.shape, type.scale, type.offset


def plain(type: TensorType) -> TensorType:
    """Return *type* without memory."""
    return TensorType(*_parts(type))


def asked(type: TensorType, memory: Memory) -> AskedType:
    """Return *type* as one whose questions go to *memory*."""
    return AskedType(*_parts(type), memory=memory)
